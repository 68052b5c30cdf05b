//! Bytes, headers, names and times survive as they were sent, whoever sent them (G2).

use bytes::Bytes;
use sendoff_core::lane::Lane;
use sendoff_core::memory::PlainRow;
use sendoff_core::store::Content;
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, ErrorKind, Message, Result};

use super::stage::{Stage, message, plain};
use super::subject::Subject;

/// Bodies are bytes: empty ones, NUL, every byte, a mebibyte.
pub async fn bodies_survive_byte_for_byte<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut random = fastrand::Rng::with_seed(7);
    let mebibyte: Vec<u8> = (0..1 << 20).map(|_| random.u8(..)).collect();
    let bodies: Vec<Bytes> = vec![
        Bytes::new(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"a\0b\\x00\\"),
        (0..=u8::MAX).collect(),
        Bytes::from("grün, 緑, \u{1f7e2}"),
        Bytes::from(mebibyte),
    ];
    let mut sent = Vec::new();
    for (n, body) in bodies.iter().enumerate() {
        sent.push(message(&n.to_string()).key("k").body(body.clone()).build()?);
    }
    stage.send(&sent).await?;
    assert_eq!(messages_of::<S>(&stage).await?, sent);
    Ok(())
}

/// Header values are text of any script, quoted or not, and may be empty.
pub async fn headers_survive<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let sent = message("1")
        .header("content-type", "application/json; charset=utf-8")
        .header("unicode", "grün, 緑, \u{1f7e2}, \u{202e}rtl")
        .header("quotes", r#"a "quoted" \ 'value' {"json":[1]}"#)
        .header("empty", "")
        .header("tab", "a\tb")
        .header("Größe-名", "name")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .build()?;
    let bare = message("2").build()?;
    let both = [sent, bare];
    stage.send(&both).await?;
    let mut found = messages_of::<S>(&stage).await?;
    found.sort_by(|a, b| a.id().cmp(b.id()));
    assert_eq!(found, both);
    Ok(())
}

/// Ids, sources, topics and keys are compared and never parsed; the longest ones fit.
pub async fn names_survive<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let longest = "ü".repeat(127);
    let sent = [
        Message::builder("a/b%2F", "t").id("c/d%25").key("").build()?,
        Message::builder("'; drop table", "\u{1f7e2}.*.>")
            .id("\"\\")
            .key("tab\tand\nline")
            .build()?,
        Message::builder(&longest, &longest).id(&longest).key("k".repeat(1024)).build()?,
        Message::builder("s", "t").id(" 1 ").key(" ").build()?,
    ];
    stage.send(&sent).await?;
    let mut found = messages_of::<S>(&stage).await?;
    let mut expected = sent.to_vec();
    found.sort_by(|a, b| a.id().cmp(b.id()));
    expected.sort_by(|a, b| a.id().cmp(b.id()));
    assert_eq!(found, expected);
    Ok(())
}

/// A due time is kept to the microsecond, and one in the past is due at once.
pub async fn due_times_survive_to_the_microsecond<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for micros in [0, 1, -62_135_596_800_000_000, 1_234_567_890_123_456] {
        let due_at = Timestamp::from_microsecond(micros)
            .map_err(|e| Error::invalid("making a time", e.to_string()))?;
        sent.push(message(&micros.to_string()).due_at(due_at).build()?);
    }
    stage.send(&sent).await?;
    let mut found = messages_of::<S>(&stage).await?;
    found.sort_by_key(Message::due_at);
    sent.sort_by_key(Message::due_at);
    assert_eq!(found, sent);
    Ok(())
}

/// What is over a limit is refused, by the store itself where a plain INSERT brings it.
pub async fn a_name_over_its_limit_is_refused_by_the_store<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let fits = plain("1");
    let long = "x".repeat(256);
    let too_long = [
        PlainRow { id: long.clone(), ..fits.clone() },
        PlainRow { source: long.clone(), ..fits.clone() },
        PlainRow { topic: long, ..fits.clone() },
        PlainRow { key: Some("k".repeat(1025)), ..fits.clone() },
        PlainRow { id: String::new(), ..fits.clone() },
        PlainRow { source: String::new(), ..fits.clone() },
        PlainRow { topic: String::new(), ..fits.clone() },
        // Bytes are counted, not characters.
        PlainRow { id: "ü".repeat(128), ..fits.clone() },
    ];
    for row in too_long {
        assert!(stage.subject.insert(row).await.is_err());
    }
    stage.subject.insert(fits).await?;
    assert_eq!(stage.owner().await?.ids().await?, ["1"]);
    Ok(())
}

/// A plain INSERT of the caller's columns needs to know nothing else, and is unique too.
pub async fn a_plain_insert_is_complete<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let row = PlainRow {
        key: Some("k".to_owned()),
        headers: r#"{"b": "2", "a": "1"}"#.to_owned(),
        body: Bytes::from_static(b"\0body"),
        ..plain("1")
    };
    stage.subject.insert(row.clone()).await?;
    let sent =
        message("1").key("k").header("a", "1").header("b", "2").body(&b"\0body"[..]).build()?;
    assert_eq!(messages_of::<S>(&stage).await?, std::slice::from_ref(&sent));
    assert!(stage.subject.insert(row).await.is_err());
    let error = stage.send(&[sent]).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Duplicate));
    Ok(())
}

/// The lane is the hash of the key, or of the id where there is no key, whoever wrote the row.
pub async fn a_message_takes_the_lane_of_its_key<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..100 {
        let builder = message(&format!("id-{n}"));
        sent.push(match n % 3 {
            0 => builder.build()?,
            1 => builder.key(format!("schlüssel-{n}")).build()?,
            _ => builder.key("").build()?,
        });
    }
    stage.send(&sent).await?;
    let rows = stage.owner().await?.rows().await?;
    assert_eq!(rows.len(), sent.len());
    for row in rows {
        let Content::Message(message) = &row.content else {
            panic!("it decodes");
        };
        let hashed = message.key().unwrap_or(message.id());
        assert_eq!(row.lane, Lane::of(hashed, S::FACTS.lanes), "{hashed:?}");
        assert_eq!(row.key.as_deref(), message.key());
    }
    Ok(())
}

/// Everything that a look gives, as messages.
async fn messages_of<S: Subject>(stage: &Stage<S>) -> Result<Vec<Message>> {
    let rows = stage.owner().await?.rows().await?;
    Ok(rows
        .into_iter()
        .map(|row| match row.content {
            Content::Message(message) => Message::clone(&message),
            other => panic!("not a message: {other:?}"),
        })
        .collect())
}
