//! The verbs: one module each. A verb reads its arguments, does its work through the library's
//! ports and gives an answer.
//!
//! What does not belong here: parsing the command line, printing, opening stores and targets.

pub(crate) mod barrier;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod migrate;
pub(crate) mod pause;
pub(crate) mod quarantine;
pub(crate) mod relay;
pub(crate) mod resend;
pub(crate) mod retention;
pub(crate) mod roles;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod tail;
pub(crate) mod up;
pub(crate) mod verify;
