//! The rules of the house, held over every file of the repository. See CONTRIBUTING.md.

mod code;
mod docs;
mod rooms;
mod schema;
mod words;
