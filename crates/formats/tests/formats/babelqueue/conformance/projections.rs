//! What a broker shows of an envelope.

use std::collections::BTreeMap;

use bytes::Bytes;
use sendoff_formats::babelqueue::bindings::{
    Typed, artemis, kafka, pulsar, rabbitmq, redis, service_bus, sqs,
};
use serde_json::{Map, Value, json};

use super::suites;

/// The suite's part, with the body that it names.
fn each_suite(pointer: &str, check: impl Fn(&Value, Bytes)) {
    for suite in suites() {
        let part = suite.manifest.pointer(pointer).unwrap();
        check(part, suite.file(&part["envelope_file"]).into());
    }
}

fn texts(pairs: Vec<(String, String)>) -> Value {
    Value::Object(pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect())
}

fn typed(pairs: Vec<(String, Typed)>) -> Value {
    let value = |typed| match typed {
        Typed::Integer(number) => Value::from(number),
        Typed::Text(text) => Value::from(text),
    };
    Value::Object(pairs.into_iter().map(|(name, typed)| (name, value(typed))).collect())
}

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

#[test]
fn sqs_attribute_projection() {
    each_suite("/sqs/attribute_projection", |part, body| {
        let attributes: Map<String, Value> = sqs::project(&body, &none())
            .unwrap()
            .into_iter()
            .map(|(name, attribute)| {
                let sqs::Attribute { data_type, string_value } = attribute;
                (name, json!({"DataType": data_type, "StringValue": string_value}))
            })
            .collect();
        assert_eq!(Value::Object(attributes), part["message_attributes"]);
    });
}

#[test]
fn asb_property_projection() {
    each_suite("/asb/property_projection", |part, body| {
        let message = service_bus::project(&body, &none()).unwrap();
        let fields = json!({
            "subject": message.subject,
            "correlation_id": message.correlation_id,
            "message_id": message.message_id,
            "content_type": message.content_type,
        });
        assert_eq!(fields, part["message"]);
        assert_eq!(typed(message.application_properties), part["application_properties"]);
    });
}

#[test]
fn pulsar_property_projection() {
    each_suite("/pulsar/property_projection", |part, body| {
        assert_eq!(texts(pulsar::project(&body, &none()).unwrap()), part["properties"]);
    });
}

#[test]
fn kafka_property_projection() {
    each_suite("/kafka/property_projection", |part, body| {
        let record = kafka::project(&body, &none()).unwrap();
        assert_eq!(texts(record.headers), part["headers"]);
        let envelope: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(record.timestamp_ms, envelope["meta"]["created_at"].as_i64());
    });
}

#[test]
fn artemis_property_projection() {
    each_suite("/artemis/property_projection", |part, body| {
        let message = artemis::project(&body, &none()).unwrap();
        assert_eq!(part["jms_type_annotation"], artemis::JMS_TYPE_ANNOTATION);
        assert_eq!(message.jms_type.as_deref(), part["jms_type"].as_str());
        assert_eq!(message.correlation_id.as_deref(), part["correlation_id"].as_str());
        assert_eq!(texts(message.properties), part["properties"]);
        let envelope: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(message.creation_time_ms, envelope["meta"]["created_at"].as_i64());
    });
}

#[test]
fn redis_payload_identity() {
    each_suite("/redis/payload_identity", |_, body| {
        let element = redis::frame(&body, &none());
        assert_eq!(element, body);
        let reserved = redis::unframe(&element);
        assert_eq!((reserved.body, reserved.headers), (body, none()));
    });
}

#[test]
fn rabbitmq_property_projection() {
    each_suite("/rabbitmq/property_projection", |part, body| {
        let message = rabbitmq::project(&body, &none()).unwrap();
        let properties = json!({
            "type": message.kind,
            "correlation_id": message.correlation_id,
            "message_id": message.message_id,
            "app_id": message.app_id,
            "content_type": message.content_type,
        });
        assert_eq!(properties, part["properties"]);
        assert_eq!(typed(message.headers), part["headers"]);
    });
}
