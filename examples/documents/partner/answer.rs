//! Doing a document and answering it.

use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::manners::Manners;
use crate::{Error, Partner};

/// What reading one takes.
const READING: Duration = Duration::from_millis(20);
/// For longer than this no answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the service sends.
#[derive(Deserialize)]
struct Document {
    batch: String,
    document: String,
    answer_to: String,
}

impl Partner {
    /// Does a document and says so.
    pub(crate) async fn answer(&self, body: &[u8]) -> Result<(), Error> {
        let document: Document = serde_json::from_slice(body)?;
        let number = document.document.trim_start_matches("doc-").trim_end_matches(".xml");
        let number: u32 = number.parse()?;
        let manners = Manners::towards(number);
        tokio::time::sleep(READING).await;
        if manners.forgets {
            return Ok(());
        }
        let outcome = if manners.fails {
            json!({"ok": false, "error": "it is not readable"})
        } else {
            json!({"ok": true, "result": {"receipt": number}})
        };
        self.enter(&document, &outcome).await?;
        if manners.loses_the_answer {
            return Ok(());
        }
        if manners.misspells {
            self.say(&document.batch, &document.document.to_uppercase(), &outcome).await?;
        }
        for _ in 0..manners.times {
            if manners.by_http {
                post(&document.answer_to, outcome.to_string()).await?;
            } else {
                self.say(&document.batch, &document.document, &outcome).await?;
            }
        }
        Ok(())
    }

    /// Enters what was done into the book.
    async fn enter(&self, document: &Document, outcome: &Value) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO partner_book SELECT $1, $2, (said->>'ok')::boolean, said->>'error', said->'result'
               FROM (SELECT $3::jsonb) AS outcome (said) ON CONFLICT DO NOTHING",
        )
        .bind(&document.batch)
        .bind(&document.document)
        .bind(outcome.to_string())
        .execute(&self.book)
        .await?;
        Ok(())
    }

    /// Answers over NATS.
    async fn say(&self, batch: &str, document: &str, outcome: &Value) -> Result<(), Error> {
        let answer = json!({"batch": batch, "document": document, "outcome": outcome});
        let sent = self.jetstream.publish("ANSWERS.outcomes", answer.to_string().into()).await?;
        sent.await?; // The stream has it.
        Ok(())
    }
}

/// Answers over HTTP.
async fn post(address: &str, outcome: String) -> Result<(), Error> {
    let address: Uri = address.parse()?;
    let host = address.authority().ok_or("an address without a host")?;
    let request = Request::post(address.path())
        .header(HOST, host.as_str())
        .header(CONTENT_TYPE, "application/json")
        .body(outcome)?;
    let status = tokio::time::timeout(PATIENCE, async {
        let stream = TcpStream::connect(host.as_str()).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok::<_, Error>(sender.send_request(request).await?.status())
    });
    match status.await?? {
        // Refused, as one that comes after the deadline, is an answer too.
        StatusCode::OK | StatusCode::CONFLICT | StatusCode::NOT_FOUND => Ok(()),
        status => Err(format!("the service says {status}").into()),
    }
}
