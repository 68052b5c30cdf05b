//! Deliveries of one handler, and which of them run.

use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::idempotency::{
    Effect, IdempotencyStore, IdempotentError, InMemoryIdempotencyStore, idempotent,
};
use serde_json::Value;

use super::{Suite, cases, suites};

fn run(suite: &Suite, case: &Value) {
    let body = suite.file(&suite.manifest["cases"][0]["file"]);
    let envelope = Envelope::decode(&body).unwrap();
    let mut store = InMemoryIdempotencyStore::new();
    let mut effects: u64 = 0;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for delivery in case["deliveries"].as_array().unwrap() {
            let id = delivery["meta_id"].as_str().unwrap();
            if delivery["forget_before"] == true {
                store.forget(id).await.unwrap();
            }
            let fails = delivery["outcome"] == "throw";
            let mut ran = false;
            let answer = idempotent(&mut store, &envelope.clone().with_id(id), || {
                ran = true;
                async move { if fails { Err("thrown") } else { Ok(()) } }
            })
            .await;
            effects += u64::from(ran);
            assert_eq!(ran, delivery["expect_effect"] == "run");
            match answer {
                Ok(effect) => assert_eq!(effect == Effect::Ran(()), ran && !fails),
                Err(IdempotentError::Handler(error)) => assert!(fails, "{error}"),
                Err(IdempotentError::Store(error)) => match error {},
            }
        }
    });
    assert_eq!(effects, case["expected_effects"].as_u64().unwrap());
}

cases!(run, "/idempotency/sequences/cases", [
    duplicate_delivery_runs_once: "duplicate-delivery-runs-once",
    at_least_once_redelivery_is_noop: "at-least-once-redelivery-is-noop",
    distinct_ids_each_run: "distinct-ids-each-run",
    throw_leaves_id_unmarked: "throw-leaves-id-unmarked",
    missing_id_fails_open: "missing-id-fails-open",
    forget_allows_rerun: "forget-allows-rerun",
]);

#[test]
fn dedup_key() {
    for suite in suites() {
        let part = &suite.manifest["idempotency"]["dedup_key"];
        let envelope = Envelope::decode(&suite.file(&part["envelope_file"])).unwrap();
        assert_eq!(envelope.id(), part["expected_key"].as_str().unwrap());
        assert_ne!(envelope.id(), envelope.trace_id());
    }
}
