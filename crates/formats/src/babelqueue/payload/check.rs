//! The check of one value against one schema.

use std::fmt::Write as _;

use super::{Violation, ViolationKind};
use crate::json::{Json, Number, Object};

pub(super) fn check(schema: &Object, value: &Json, path: &mut String, found: &mut Vec<Violation>) {
    let mut fault = |kind| found.push(Violation { path: path.clone(), kind });
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        fault(ViolationKind::WrongConst);
    }
    if let Some(allowed) = schema.get("enum").and_then(Json::as_array)
        && !allowed.contains(value)
    {
        fault(ViolationKind::NotInEnum);
    }
    let Some(kind) = schema.get("type").and_then(Json::as_str) else { return };
    match (kind, value) {
        ("object", Json::Object(fields)) => object(schema, fields, path, found),
        ("object", _) => fault(ViolationKind::NotAnObject),
        ("array", Json::Array(items)) => array(schema, items, path, found),
        ("array", _) => fault(ViolationKind::NotAnArray),
        ("string", Json::String(text)) => {
            let length_min = schema.get("minLength").and_then(Json::as_i64).unwrap_or(0);
            if i64::try_from(text.chars().count()).is_ok_and(|length| length < length_min) {
                fault(ViolationKind::BelowMinLength);
            }
        }
        ("string", _) => fault(ViolationKind::NotAString),
        ("integer", Json::Number(number)) if !number.is_whole() => {
            fault(ViolationKind::NotAnInteger);
        }
        ("integer" | "number", Json::Number(number)) if below_minimum(schema, number) => {
            fault(ViolationKind::BelowMinimum);
        }
        ("integer" | "number", Json::Number(_)) => {}
        ("integer", _) => fault(ViolationKind::NotAnInteger),
        ("number", _) => fault(ViolationKind::NotANumber),
        ("boolean", Json::Bool(_)) | ("null", Json::Null) => {}
        ("boolean", _) => fault(ViolationKind::NotABoolean),
        ("null", _) => fault(ViolationKind::NotNull),
        _ => {}
    }
}

/// By their values: as integers of 128 bits where both are such, else in double precision.
fn below_minimum(schema: &Object, number: &Number) -> bool {
    let Some(Json::Number(minimum)) = schema.get("minimum") else { return false };
    match (number.as_str().parse::<i128>(), minimum.as_str().parse::<i128>()) {
        (Ok(number), Ok(minimum)) => number < minimum,
        _ => number.to_f64() < minimum.to_f64(),
    }
}

fn object(schema: &Object, fields: &Object, path: &mut String, found: &mut Vec<Violation>) {
    let required = schema.get("required").and_then(Json::as_array).unwrap_or_default();
    for name in required.iter().filter_map(Json::as_str) {
        if fields.get(name).is_none() {
            let kind = ViolationKind::MissingRequired;
            under(path, name, |path| found.push(Violation { path: path.clone(), kind }));
        }
    }
    let properties = schema.get("properties").and_then(Json::as_object);
    for (name, inner) in properties.into_iter().flat_map(Object::iter) {
        if let (Some(inner), Some(value)) = (inner.as_object(), fields.get(name)) {
            under(path, name, |path| check(inner, value, path, found));
        }
    }
    if schema.get("additionalProperties") == Some(&Json::Bool(false)) {
        let known = |name: &str| properties.is_some_and(|known| known.get(name).is_some());
        for (name, _) in fields.iter().filter(|(name, _)| !known(name)) {
            let kind = ViolationKind::AdditionalNotAllowed;
            under(path, name, |path| found.push(Violation { path: path.clone(), kind }));
        }
    }
}

fn array(schema: &Object, items: &[Json], path: &mut String, found: &mut Vec<Violation>) {
    let Some(inner) = schema.get("items").and_then(Json::as_object) else { return };
    for (index, item) in items.iter().enumerate() {
        let length = path.len();
        let _ = write!(path, "[{index}]");
        check(inner, item, path, found);
        path.truncate(length);
    }
}

/// Runs with the path of a property, and takes its name off again.
fn under(path: &mut String, name: &str, run: impl FnOnce(&mut String)) {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(name);
    run(path);
    path.truncate(length);
}
