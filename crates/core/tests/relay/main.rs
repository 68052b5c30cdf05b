//! The whole relay on the reference store and publisher. The same relay runs on real databases and
//! brokers in the crash harness; here each behaviour stands alone and every failure is scripted.

#![allow(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "a test's scene panics where the test is broken"
)]

mod alerts;
mod barriers;
mod failures;
mod order;
mod ownership;
mod panics;
mod policies;
mod scene;
mod trouble;
