//! `sendoff send`: messages in transactions of their own.

mod body;
mod due;
mod lines;

use sendoff::{Error, Headers, Message, Outbox, Result};
use serde_json::json;

use crate::arguments::SendArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit};
use crate::output::{Form, grouped, shown};
use crate::store::Store;

/// Everything of a message but its body.
#[derive(Debug)]
struct Envelope {
    outbox: Outbox,
    topic: String,
    key: Option<String>,
    id: Option<String>,
    headers: Headers,
    due_at: Option<sendoff::time::Timestamp>,
    body_bytes_max: usize,
}

impl Envelope {
    fn read(configuration: &Configuration, arguments: &SendArguments) -> Result<Self> {
        let limits = configuration.limits()?;
        let source = configuration.text("source").unwrap_or_default();
        Ok(Self {
            outbox: Outbox::new(source).with_limits(limits),
            topic: arguments.topic.clone(),
            key: arguments.key.clone(),
            id: arguments.id.clone(),
            headers: headers(&arguments.headers)?,
            due_at: arguments.at.as_deref().map(due::parse).transpose()?,
            body_bytes_max: limits.body_bytes_max,
        })
    }

    /// A message with this body.
    fn message(&self, body: Vec<u8>) -> Result<Message> {
        let mut builder =
            self.outbox.message(self.topic.clone()).headers(self.headers.clone()).body(body);
        if let Some(key) = &self.key {
            builder = builder.key(key.clone());
        }
        if let Some(id) = &self.id {
            builder = builder.id(id.clone());
        }
        if let Some(due_at) = self.due_at {
            builder = builder.due_at(due_at);
        }
        builder.build()
    }
}

fn headers(pairs: &[String]) -> Result<Headers> {
    let mut headers = Headers::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Error::invalid(
                "reading --header",
                format!("`{}` has no `=`", shown(pair)),
            )
            .advice("write --header name=value"));
        };
        headers.set(name, value);
    }
    Ok(headers)
}

/// Sends one message, or one for each line of standard input.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &SendArguments,
    form: Form,
) -> Ending {
    let envelope = Envelope::read(configuration, arguments)?;
    // A message that can never be sent is refused before anything is opened or read.
    envelope.message(Vec::new())?;
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    if arguments.lines {
        return lines::send(&store, envelope, arguments.per_transaction, form).await;
    }
    let body = body::read(arguments, envelope.body_bytes_max)?;
    let message = envelope.message(body)?;
    store
        .desk
        .send_all(std::slice::from_ref(&message))
        .await
        .map_err(|error| store.explain(error))?;
    form.answer(
        &json!({
            "sent": 1,
            "id": message.id(),
            "source": message.source(),
            "topic": message.topic(),
        }),
        &format!(
            "sent {} ({} bytes to {})",
            message.id(),
            grouped(u64::try_from(message.body().len()).unwrap_or(u64::MAX)),
            message.topic()
        ),
    )?;
    Ok(Exit::Done)
}
