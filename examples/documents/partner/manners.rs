//! How this partner behaves, by the number of a document: always the same, so that everybody can say
//! what has to come of it.

/// What it does with one document.
pub(crate) struct Manners {
    /// It never gets to it.
    pub(crate) forgets: bool,
    /// It does it, and its answer is lost on the way.
    pub(crate) loses_the_answer: bool,
    /// It answers under a wrong name first.
    pub(crate) misspells: bool,
    /// It cannot read it.
    pub(crate) fails: bool,
    /// How often it says the same.
    pub(crate) times: u64,
    /// It answers over HTTP, or else over NATS.
    pub(crate) by_http: bool,
}

impl Manners {
    pub(crate) fn towards(number: u32) -> Self {
        Self {
            forgets: number % 250 == 77,
            loses_the_answer: number % 100 == 42,
            misspells: number % 50 == 11,
            fails: number % 10 == 3,
            times: if number.is_multiple_of(7) { 2 } else { 1 },
            by_http: !number.is_multiple_of(2),
        }
    }
}
