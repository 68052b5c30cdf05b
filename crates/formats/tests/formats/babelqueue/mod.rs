//! BabelQueue: the public suite's cases and what the contract says besides.

mod cipher;
mod conformance;
mod dead_letters;
mod envelope;
mod gate;
mod handlers;
mod outbox;
mod payload;
mod projections;
mod properties;
mod redrive;
mod traces;
mod warnings;
