//! The whole relay on the reference store and publisher. The same relay runs on real databases and
//! brokers in the crash harness; here each behaviour stands alone and every failure is scripted.

mod failures;
mod order;
mod ownership;
mod scene;
mod trouble;
