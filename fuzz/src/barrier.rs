//! Messages of barriers, outcomes and names.

use sendoff_core::barrier::{
    BarrierId, Continuation, Errand, Json, MemberName, Outcome, near_forms,
};

use crate::{Target, lines};

/// The body of a continuation.
pub(crate) const CONTINUATION: Target = Target {
    name: "continuation",
    run: continuation,
    seeds: &[
        br#"{"barrier":"b","epoch":1,"reason":"all"}"#,
        br#"{"tenant":"t","barrier":"b"}"#,
        br#"{"barrier":"","epoch":4294967296}"#,
    ],
};

fn continuation(data: &[u8]) {
    let Ok(continuation) = Continuation::parse(data) else {
        return;
    };
    let body = serde_json::to_vec(&continuation).unwrap_or_default();
    assert_eq!(Continuation::parse(&body).ok().as_ref(), Some(&continuation));
    if let Ok(message) = continuation.message("incarnation", "done") {
        assert_eq!(Continuation::parse(message.body()).ok().as_ref(), Some(&continuation));
    }
}

/// The body of an errand.
pub(crate) const ERRAND: Target = Target {
    name: "errand",
    run: errand,
    seeds: &[
        br#"{"barrier":"b","incarnation":"i","epoch":1,"act":"deadline"}"#,
        br#"{"tenant":"t","barrier":"b","incarnation":"i","epoch":2,"act":"ascend"}"#,
    ],
};

fn errand(data: &[u8]) {
    if let Ok(errand) = Errand::parse(data) {
        let body = serde_json::to_vec(&errand).unwrap_or_default();
        assert_eq!(Errand::parse(&body).ok().as_ref(), Some(&errand));
    }
}

/// An outcome as stores keep it and as partners send it.
pub(crate) const OUTCOME: Target = Target {
    name: "outcome",
    run: outcome,
    seeds: &[
        br#"{"ok":true,"result":{"n":1e400,"big":123456789012345678901234567890}}"#,
        br#"{"ok":false,"error":"no"}"#,
        br#"{"result":[[[[null]]]]}"#,
    ],
};

fn outcome(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let outcome = Outcome::decode(&text);
    if let Ok(encoded) = outcome.encode() {
        let again = Outcome::decode(&encoded);
        assert!(!again.differs(&outcome), "{outcome:?}");
        assert_eq!(again.encode().ok(), Some(encoded));
    }
    if let Ok(json) = Json::parse(text) {
        assert!(json.same_value(&json));
    }
}

/// Names of barriers and members.
pub(crate) const NAMES: Target = Target {
    name: "names",
    run: names,
    seeds: &[b"batch-7\na.xml", b"\n%41%2\n+ ", "\u{130}\u{df} \nx".as_bytes()],
};

fn names(data: &[u8]) {
    if let Ok(name) = MemberName::new(data) {
        assert_eq!(name.as_bytes(), data);
        let forms = near_forms(data);
        assert!((1..=3).contains(&forms.len()), "{forms:?}");
    }
    let mut lines = lines(data);
    let (tenant, id) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if let Ok(id) = BarrierId::of_tenant(tenant, id) {
        assert_eq!(BarrierId::of_tenant(id.tenant(), id.id()).ok(), Some(id));
    }
}
