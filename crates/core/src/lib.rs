//! The idea of Sendoff, without a driver.
//!
//! > What rolled back never left. What committed will arrive.
//!
//! The modules read from the nouns down to the motion, and each uses only the ones above it:
//!
//! - [`message`], [`error`], [`time`], [`lane`]: the nouns.
//! - [`store`], [`publisher`]: the ports. A database implements the first, a broker the second.
//! - [`outbox`]: the meaning. A message is written in the transaction that the caller opened.
//! - [`barrier`]: more meaning. A known set of acknowledgements is waited for, and one message goes on.
//! - [`relay`]: the motion. Committed messages are looked up, published and settled.
//! - [`memory`]: the reference store and publisher, which behave like the real ones.
//!
//! What does not belong here: a database driver, a broker client, SQL, a configuration file.

pub mod barrier;
pub mod error;
pub mod lane;
pub mod memory;
pub mod message;
pub mod outbox;
pub mod publisher;
pub mod relay;
pub mod store;
pub mod time;

pub use error::{Error, ErrorKind, Result};
pub use message::{Headers, Limits, Message};
pub use outbox::{Outbox, Wake};
pub use publisher::{PublishError, Publisher};
pub use relay::Relay;
