//! What may be published through one outlet, and what of it is in memory.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Line {
    /// May be published now, in order: seqs and turns.
    pub(super) ready: VecDeque<(i64, u64)>,
    /// As `ready`, but to be published alone: their outcome was unknown twice.
    pub(super) suspects: VecDeque<(i64, u64)>,
    pub(super) in_flight: usize,
    /// The suspect that is in flight, alone.
    pub(super) alone: Option<i64>,
    /// Rows and bytes that are queued or in flight.
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Line {
    pub(super) fn has_next(&self) -> bool {
        !self.ready.is_empty() || !self.suspects.is_empty()
    }

    /// A publish has ended.
    pub(super) fn landed(&mut self, seq: i64) {
        self.in_flight -= 1;
        self.alone = self.alone.filter(|alone| *alone != seq);
    }

    /// A row is neither queued nor in flight any more.
    pub(super) fn left(&mut self, size: usize) {
        self.rows -= 1;
        self.bytes -= size;
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(i64, u64) -> bool) {
        for queue in [&mut self.ready, &mut self.suspects] {
            queue.retain(|(seq, turn)| keeps(*seq, *turn));
        }
    }
}
