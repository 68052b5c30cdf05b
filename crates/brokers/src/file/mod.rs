//! JSON lines, to a file or to standard output.
//!
//! # Address
//!
//! `file:out.jsonl`, `file:/var/out.jsonl` or `file:///var/out.jsonl`; `stdout:`. A path is taken
//! as it is, without percent-decoding. The file is created where it is not there; its folder has
//! to be.
//!
//! # A line
//!
//! One JSON object, then a line feed; lines stand in the order of the publishes.
//!
//! | field | value |
//! | --- | --- |
//! | `id`, `source`, `topic` | strings; source and id together name the message in every delivery |
//! | `key` | a string, or `null` |
//! | `headers` | an object of strings |
//! | `body` | the body as a string, where its bytes are UTF-8 |
//! | `body_base64` | the body in Base64 (standard alphabet, padded), where they are not |
//! | `due_at` | only where the message had one: RFC 3339 in UTC |
//!
//! A line may come again, with the same source and id, after a crash: nothing here deduplicates.
//! [`read_line`] reads a line back.
//!
//! # What is kept
//!
//! - A message is confirmed once its line is on the disk (`fdatasync`). Publishes that wait at the
//!   same time share one write and one sync.
//! - One writer per file: it holds an advisory lock (`flock`) from its first line to its end.
//! - A line that a crash left unfinished is cut off under the lock, before anything is written.
//! - A file that was renamed or removed (log rotation) is noticed before the next write, and a new
//!   one is begun at the path.
//! - After a failed sync nobody knows what is on the disk: the publishes fail as `Lost`, and the
//!   file is opened anew.
//! - A full disk fails the publishes as `Unreachable` ("disk full"); what was written of them is
//!   cut off again, and they succeed once there is space.
//!
//! Standard output is written and flushed, not synced, and a reader that has gone makes the
//! publishes fail as `Unreachable`.
//!
//! # Keys
//!
//! [`FolderKeys`] lists the files of a folder for barriers whose probe is a prefix of keys.
//!
//! What does not belong here: rotation itself, compression, reading lines as a source of messages.

mod address;
mod doctor;
mod folder;
mod journal;
mod line;
mod lock;
mod publisher;
mod stdout;
mod writer;

pub use address::FileAddress;
pub(crate) use doctor::examine;
pub use folder::FolderKeys;
pub use line::read_line;
pub use publisher::FilePublisher;
pub use stdout::StdoutPublisher;
