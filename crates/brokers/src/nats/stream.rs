//! Creating the stream, when the address asks for it.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, StorageType};

use crate::nats::address::NatsAddress;

/// After a creation that failed the stream is looked for so often, with this time between.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Creates the address's stream where it is not there, and changes nothing where it is.
///
/// # Errors
/// A text that says what the server answered and what to do.
pub(super) async fn create(
    client: &Client,
    address: &NatsAddress,
    duplicate_window: Duration,
    wait: Duration,
) -> Result<(), String> {
    let mut context = jetstream::new(client.clone());
    context.set_timeout(wait);
    let (stream, subject) = (address.stream(), address.filter());
    match context.get_stream(stream).await {
        Ok(_) => return Ok(()),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(answer)
                if answer.error_code() == ErrorCode::STREAM_NOT_FOUND => {}
            // Whoever may not ask may still publish: what is wrong shows at the publish.
            _ => return Ok(()),
        },
    }
    let config = Config {
        name: stream.to_owned(),
        subjects: vec![subject.clone()],
        storage: StorageType::File,
        duplicate_window,
        ..Config::default()
    };
    let Err(error) = context.create_stream(config).await else {
        tracing::info!(target = %address, subject, "created the stream");
        return Ok(());
    };
    // Somebody may be faster by a moment: the server then says that the name is taken, or that the
    // subjects overlap with a stream that it does not show yet.
    for _ in 0..LOOKS {
        if context.get_stream(stream).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Err(format!(
        "cannot create stream {stream}: {}; give this user the right to \
         $JS.API.STREAM.CREATE.{stream}, or create it: nats stream add {stream} \
         --subjects='{subject}' --storage=file --defaults",
        error.kind()
    ))
}
