//! `envelope`: what an envelope of BabelQueue costs over bare JSON, decoded and encoded.
//!
//! No server takes part. The family's own bound is 15 microseconds: 2 % of a broker's round trip.

use std::hint::black_box;
use std::time::Instant;

use sendoff_formats::babelqueue::Envelope;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};
use crate::measure::Answer;
use crate::table::Table;

/// The family's bound on what an envelope may cost over bare JSON.
const BOUND_US: f64 = 15.0;

/// Of so many rounds the best counts: what else the machine does only ever adds.
const ROUNDS: u32 = 5;

macro_rules! vector {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(
                "../../../crates/formats/tests/formats/babelqueue/vectors/fixtures/",
                $name,
                ".json"
            )),
        )
    };
}

/// The envelopes that are measured: those of the tests, as a producer writes them.
const ENVELOPES: [(&str, &str); 3] =
    [vector!("order-created"), vector!("unicode-and-numbers"), vector!("dead-lettered")];

/// Runs it.
///
/// # Errors
/// Where an envelope does not decode.
pub(crate) fn measure(quick: bool) -> Result<Answer> {
    let iterations = if quick { 50_000 } else { 200_000 };
    let mut table =
        Table::new(&["envelope", "bytes", "bare JSON us", "envelope us", "over bare JSON us"]);
    let mut figures = Map::new();
    let mut worst = f64::MIN;
    for (name, text) in ENVELOPES {
        let failed = |what: String| Failure::new(format!("{name}: {what}"));
        let envelope = Envelope::decode(text.as_bytes()).map_err(|e| failed(e.to_string()))?;
        let body = envelope.encode();
        let (mut bare_us, mut envelope_us) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            bare_us = bare_us.min(each_us(iterations, || bare(&body)));
            envelope_us = envelope_us.min(each_us(iterations, || whole(&body)));
        }
        let over_us = envelope_us - bare_us;
        worst = worst.max(over_us);
        let cell = |us: f64| format!("{us:.2}");
        let sizes = body.len().to_string();
        table.row(vec![name.to_owned(), sizes, cell(bare_us), cell(envelope_us), cell(over_us)]);
        figures.insert(
            name.to_owned(),
            json!({"bytes": body.len(), "bare_us": bare_us, "envelope_us": envelope_us, "over_us": over_us}),
        );
    }
    let within = worst <= BOUND_US;
    let verdict = if within { "within" } else { "over" };
    let text = format!(
        "Decode and encode, best of {ROUNDS} rounds of {iterations}\n\n{table}\n\
         At most {worst:.2} us over bare JSON: {verdict} the bound of {BOUND_US} us.\n"
    );
    let json = Map::from_iter([
        ("bench".to_owned(), json!("envelope")),
        ("quick".to_owned(), json!(quick)),
        ("envelopes".to_owned(), Value::Object(figures)),
        ("over_us_max".to_owned(), json!(worst)),
        ("within_bound".to_owned(), json!(within)),
    ]);
    Ok(Answer { text, json })
}

/// What a program does that knows no envelope.
fn bare(body: &[u8]) -> usize {
    let value: Option<Value> = serde_json::from_slice(black_box(body)).ok();
    value.and_then(|value| serde_json::to_vec(&value).ok()).map_or(0, |text| text.len())
}

/// What a consumer and a producer do: decode, check, encode.
fn whole(body: &[u8]) -> usize {
    let envelope = Envelope::decode(black_box(body)).ok();
    envelope.filter(Envelope::accepts).map_or(0, |envelope| envelope.encode().len())
}

fn each_us(iterations: u32, mut run: impl FnMut() -> usize) -> f64 {
    let begun = Instant::now();
    for _ in 0..iterations {
        black_box(run());
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(iterations)
}
