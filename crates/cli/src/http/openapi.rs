//! The description of the routes, kept by hand in `openapi.json`.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

const DESCRIPTION: &str = include_str!("openapi.json");

/// Answers with the description.
pub(super) async fn describe() -> Response {
    ([(CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::DESCRIPTION;
    use crate::http::problem::CODES;

    fn description() -> Value {
        serde_json::from_str(DESCRIPTION).unwrap()
    }

    /// Every route of the router, as `method path`, read from its source.
    fn routes() -> BTreeSet<String> {
        let source = include_str!("mod.rs");
        let calls = source.split(".route(\"").skip(1);
        calls
            .map(|call| {
                let (path, rest) = call.split_once("\", ").unwrap();
                let method = rest.split('(').next().unwrap();
                format!("{method} {path}")
            })
            .collect()
    }

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let mut described = BTreeSet::new();
        for (path, item) in description()["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                described.insert(format!("{method} {path}"));
            }
        }
        assert!(described.len() >= 8);
        assert_eq!(routes(), described);
    }

    #[test]
    fn every_code_is_described_and_nothing_else_is() {
        let document = description();
        let code = &document["components"]["schemas"]["Code"]["enum"];
        let described: BTreeSet<&str> =
            code.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
        let known: BTreeSet<&str> = CODES.iter().map(|(code, _, _)| *code).collect();
        assert_eq!(known, described);
    }

    #[test]
    fn every_code_is_described_under_its_status_where_it_can_come() {
        let document = description();
        let mut seen = BTreeSet::new();
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values().filter(|value| value.is_object()) {
                for (status, answer) in operation["responses"].as_object().unwrap() {
                    let text = answer["description"].as_str().unwrap();
                    for (code, _, _) in
                        CODES.iter().filter(|(_, known, _)| *status == known.to_string())
                    {
                        if text.contains(code) {
                            seen.insert(*code);
                        }
                    }
                }
            }
        }
        // These two come for what is no route at all.
        seen.extend(["no_route", "method_not_allowed"]);
        assert_eq!(seen, CODES.iter().map(|(code, _, _)| *code).collect());
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        let document = description();
        for part in DESCRIPTION.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
