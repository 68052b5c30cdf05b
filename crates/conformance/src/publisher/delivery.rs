//! What arrives is what was sent, once confirmed, under one id.

use std::collections::HashSet;

use sendoff_core::{Message, Result};

use super::stage::{
    check_confirmed, confirmed, message, numbered, publish_all, refused, soon, with_body,
};
use super::subject::Subject;

pub async fn a_confirmed_message_has_arrived<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    assert_eq!(subject.arrived().await?, []);
    let publisher = subject.publisher().await?;
    let sent = message("1")?;
    confirmed(soon("a publish", publisher.publish(&sent)).await);
    let arrived = subject.arrived().await?;
    assert_eq!(arrived.len(), 1);
    assert_eq!(arrived[0].message, sent);
    Ok(())
}

pub async fn bodies_arrive_byte_for_byte<S: Subject>() -> Result<()> {
    let every_byte: Vec<u8> = (0..=255).collect();
    survive::<S>(vec![
        with_body("empty", "")?,
        with_body("nul", vec![0])?,
        with_body("nuls", vec![0; 1000])?,
        with_body("every-byte", every_byte)?,
        with_body("not-utf8", vec![b'a', 0xff, 0xfe, b'\n'])?,
        with_body("lines", "one\r\ntwo\n\n")?,
        with_body("json", "{\"a\":\"\\u0000\\\"\"}")?,
        with_body("unicode", "Zo\u{eb} \u{1f980} \u{2028}")?,
    ])
    .await
}

pub async fn a_body_of_a_mebibyte_arrives<S: Subject>() -> Result<()> {
    let text: String = (0..1 << 16).map(|n| format!("{n:015}\n")).collect();
    let bytes: Vec<u8> = (0_u32..1 << 18).flat_map(u32::to_le_bytes).collect();
    assert_eq!((text.len(), bytes.len()), (1 << 20, 1 << 20));
    survive::<S>(vec![with_body("text", text)?, with_body("bytes", bytes)?]).await
}

pub async fn headers_arrive<S: Subject>() -> Result<()> {
    let build = |id: &str| Message::builder("suite", "orders.placed").id(id);
    let mut many = build("many");
    for n in 0..100 {
        many = many.header(format!("x-{n}"), format!("value {n}"));
    }
    survive::<S>(vec![
        build("plain").header("content-type", "application/json").build()?,
        build("empty").header("x-empty", "").build()?,
        build("spaces")
            .header("x-a", " a ")
            .header("x-b", "\u{3000}b")
            .header("x-c", " ")
            .build()?,
        build("tab").header("x-tab", "\ta\tb\u{7f}\u{1}").build()?,
        build("unicode")
            .header("x-name", "Zo\u{eb} \u{1f980}")
            .header("x-\u{e9}\u{1f980}", "v")
            .build()?,
        build("escapes")
            .header("x-url", "https://h/a%20b")
            .header("x%20", "v")
            .header("x", "%")
            .build()?,
        build("case").header("x-case", "lower").header("X-Case", "upper").build()?,
        build("marks").header("x-marks", "a: b, \"c\"; d=e\\").header("a\"\\{}", "v").build()?,
        build("msg-id").header("Nats-Msg-Id", "own").header("x", "Nats-Msg-Id: own").build()?,
        build("ours").header("Sendoff-Id", "own").header("sendoff-key", "own").build()?,
        build("trace")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .build()?,
        many.build()?,
    ])
    .await
}

pub async fn names_arrive<S: Subject>() -> Result<()> {
    let names = [
        "a b",
        " a",
        "a ",
        "%",
        "%20",
        "*",
        ">",
        "a.>",
        ".",
        "..",
        ".a",
        "a.",
        "a..b",
        "$JS.API",
        "_INBOX.a",
        "a/b",
        "a\\b",
        "\"",
        "{}",
        ":",
        "Zo\u{eb}",
        "\u{1f980}",
        "\u{3000}a",
        "Nats-Msg-Id",
        "a:b,c;d=e",
    ];
    let long = "\u{1f980}".repeat(63);
    let mut messages = Vec::new();
    for name in names.into_iter().chain([long.as_str()]) {
        messages.push(Message::builder("suite", "t").id(name).build()?);
        messages.push(Message::builder(name, "t").id("1").build()?);
        messages.push(Message::builder("topics", name).id(name).build()?);
        messages.push(Message::builder("keys", "t").id(name).key(name).build()?);
    }
    let key =
        |id: &str, key: &str| Message::builder("keys", "t").id(id).key(key.to_owned()).build();
    messages.push(key("empty-key", "")?);
    messages.push(key("control-key", "a\r\nb\t\u{1}")?);
    messages.push(key("long-key", &"k".repeat(1024))?);
    survive::<S>(messages).await
}

/// Publishes one after another, so that the order is known, and compares everything.
async fn survive<S: Subject>(messages: Vec<Message>) -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    for message in &messages {
        assert_eq!(publisher.check(message), Ok(()), "{}", message.id());
        confirmed(soon("a publish", publisher.publish(message)).await);
    }
    let arrived = subject.arrived().await?;
    for (sent, arrival) in messages.iter().zip(&arrived) {
        assert_eq!(&arrival.message, sent);
    }
    assert_eq!(arrived.len(), messages.len());
    Ok(())
}

pub async fn a_message_with_a_due_time_arrives<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let due = sendoff_core::time::Timestamp::UNIX_EPOCH;
    let sent = Message::builder("suite", "t").id("1").due_at(due).build()?;
    confirmed(soon("a publish", publisher.publish(&sent)).await);
    assert_eq!(subject.arrived().await?[0].message.id(), "1");
    Ok(())
}

pub async fn a_repetition_carries_the_same_id<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let sent = Message::builder(" a/b %", "t").id(" 1/2 % ").build()?;
    // From two publishers one after the other, as before and after a crash.
    for _ in 0..2 {
        let publisher = subject.publisher().await?;
        confirmed(soon("a publish", publisher.publish(&sent)).await);
        confirmed(soon("a publish", publisher.publish(&sent)).await);
        soon("the close", publisher.close()).await;
    }
    let arrived = subject.arrived().await?;
    assert_eq!(arrived.len(), if S::FACTS.deduplicates { 1 } else { 4 });
    for arrival in &arrived {
        assert_eq!(arrival, &arrived[0]);
        assert_eq!(arrival.message, sent);
    }
    Ok(())
}

pub async fn different_messages_never_share_an_id<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let pairs = [
        ("a", "b"),
        ("a ", "b"),
        (" a", "b"),
        ("  a", "b"),
        ("a", " b"),
        ("a", "b "),
        ("A", "b"),
        ("a", "B"),
        ("a/b", "c"),
        ("a", "b/c"),
        ("a%2Fb", "c"),
        ("a%252Fb", "c"),
        ("a%", "2Fb/c"),
        ("%20a", "b"),
        ("a", "b%20"),
        ("%(a", "b)"),
        ("%(a", "b )"),
        ("\u{e9}", "b"),
        ("e\u{301}", "b"),
        ("\u{3000}a", "b"),
    ];
    let messages = pairs
        .iter()
        .map(|(source, id)| Message::builder(*source, "t").id(*id).build())
        .collect::<Result<Vec<_>>>()?;
    for message in &messages {
        confirmed(soon("a publish", publisher.publish(message)).await);
    }
    let arrived = subject.arrived().await?;
    let ids: HashSet<&str> = arrived.iter().map(|arrival| arrival.dedup_id.as_str()).collect();
    assert_eq!(arrived.len(), pairs.len(), "a deduplicating target dropped one: {ids:?}");
    assert_eq!(ids.len(), pairs.len(), "{ids:?}");
    Ok(())
}

pub async fn two_thousand_publishes_at_once_are_all_confirmed<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    assert!(publisher.limits().in_flight_max > 0);
    let messages = numbered(2_000)?;
    let outcomes = soon("the publishes", publish_all(&publisher, &messages)).await;
    assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|o| o.is_err()));
    let arrived = subject.arrived().await?;
    assert_eq!(arrived.len(), 2_000);
    check_confirmed(&messages, &outcomes, &arrived);
    Ok(())
}

pub async fn publishes_one_after_another_keep_their_order<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let messages = numbered(200)?;
    for message in &messages {
        confirmed(soon("a publish", publisher.publish(message)).await);
    }
    let arrived = subject.arrived().await?;
    let ids: Vec<&str> = arrived.iter().map(|arrival| arrival.message.id()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(ids.len(), 200);
    Ok(())
}

pub async fn two_publishers_do_not_disturb_each_other<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let first = subject.publisher().await?;
    confirmed(soon("a publish", first.publish(&message("1")?)).await);
    let second = subject.publisher().await;
    if S::FACTS.exclusive {
        let error = refused("the second publisher of an exclusive target", second);
        assert_eq!(error.kind(), sendoff_core::ErrorKind::Locked, "{error}");
    } else {
        let second = second?;
        confirmed(soon("a publish", second.publish(&message("2")?)).await);
        soon("the close", second.close()).await;
    }
    confirmed(soon("a publish", first.publish(&message("3")?)).await);
    let expected = if S::FACTS.exclusive { 2 } else { 3 };
    assert_eq!(subject.arrived().await?.len(), expected);
    Ok(())
}
