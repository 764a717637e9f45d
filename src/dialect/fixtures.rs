//! Recorded dead letters as tests: every one is read, and those of registered dialects are checked in full.
//!
//! `expect` and `replay` of a letter whose framework is not registered yet are skipped, so that a dialect's
//! fixtures start to count with its line in the registry.

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value as Json};

use super::{NoHome, Publish, REGISTRY, Target, home, read};
use crate::{
    dead_letter::{CapturedFrom, Reading},
    message::{AmqpProperties, Headers, RawMessage, Text, Value},
};

struct Fixture {
    name: String,
    json: Json,
}

fn fixtures() -> Vec<Fixture> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files: Vec<_> = ["dialects", "real"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).expect("fixtures"))
        .map(|entry| entry.expect("fixture").path())
        .collect();
    files.sort();
    let fixture = |path: PathBuf| Fixture {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        json: serde_json::from_slice(&fs::read(&path).expect("readable")).expect("JSON"),
    };
    files.into_iter().map(fixture).filter(|fixture| fixture.json["broker"] == "rabbitmq").collect()
}

impl Fixture {
    fn message(&self) -> RawMessage {
        RawMessage::amqp(properties(&self.json["properties"]), headers(&self.json["headers"]), body(&self.json["body"]))
    }

    fn captured(&self) -> CapturedFrom {
        let text = |name: &str| self.json["delivered"][name].as_str();
        CapturedFrom {
            queue: text("queue").map(Into::into),
            exchange: text("exchange").map(Into::into),
            routing_key: text("routing_key").map(Into::into),
            ..CapturedFrom::default()
        }
    }

    fn expect(&self) -> &Map<String, Json> {
        self.json["expect"].as_object().expect("expect")
    }

    /// Whether the dialect that has to speak is registered. A letter that names none only tells what to read.
    fn counts(&self) -> bool {
        match self.expect().get("framework") {
            Some(Json::String(framework)) => REGISTRY.iter().any(|dialect| dialect.name() == framework),
            _ => true,
        }
    }
}

fn bytes(json: &Json) -> Vec<u8> {
    match json {
        Json::String(text) => text.clone().into_bytes(),
        other => STANDARD.decode(other["b64"].as_str().expect("b64")).expect("base64"),
    }
}

fn text(json: &Json) -> Text {
    bytes(json).into()
}

fn integer<T: TryFrom<i64>>(json: &Json) -> T {
    json.as_i64().and_then(|number| T::try_from(number).ok()).expect("an integer in range")
}

#[expect(clippy::cast_possible_truncation, reason = "fixtures hold floats that fit")]
fn value(json: &Json) -> Value {
    let v = &json["v"];
    match json["t"].as_str().expect("a type letter") {
        "V" => Value::Void,
        "t" => Value::Bool(v.as_bool().expect("bool")),
        "b" => Value::I8(integer(v)),
        "B" => Value::U8(integer(v)),
        "s" => Value::I16(integer(v)),
        "u" => Value::U16(integer(v)),
        "I" => Value::I32(integer(v)),
        "i" => Value::U32(integer(v)),
        "l" | "L" => Value::I64(integer(v)),
        "f" => Value::F32(v.as_f64().expect("float") as f32),
        "d" => Value::F64(v.as_f64().expect("float")),
        "S" => Value::Str(text(v)),
        "x" => Value::Bytes(bytes(v)),
        "T" => Value::Timestamp(integer(v)),
        "A" => Value::Array(v.as_array().expect("array").iter().map(value).collect()),
        "F" => Value::Table(headers(v)),
        other => panic!("type letter {other}"),
    }
}

fn headers(json: &Json) -> Headers {
    json.as_object().expect("headers").iter().map(|(name, json)| (name.as_str().into(), value(json))).collect()
}

fn body(json: &Json) -> Vec<u8> {
    let kind = json.as_object().and_then(|body| body.iter().next()).expect("a body");
    match (kind.0.as_str(), kind.1) {
        ("utf8", Json::String(text)) => text.clone().into_bytes(),
        ("json", json) => json.to_string().into_bytes(),
        ("b64", _) => bytes(json),
        other => panic!("body {other:?}"),
    }
}

fn properties(json: &Json) -> AmqpProperties {
    let mut properties = AmqpProperties::default();
    for (name, json) in json.as_object().expect("properties") {
        match name.as_str() {
            "content_type" => properties.content_type = Some(text(json)),
            "content_encoding" => properties.content_encoding = Some(text(json)),
            "delivery_mode" => properties.delivery_mode = Some(integer(json)),
            "priority" => properties.priority = Some(integer(json)),
            "correlation_id" => properties.correlation_id = Some(text(json)),
            "reply_to" => properties.reply_to = Some(text(json)),
            "expiration" => properties.expiration = Some(text(json)),
            "message_id" => properties.message_id = Some(text(json)),
            "timestamp" => properties.timestamp = Some(integer(json)),
            "type" => properties.kind = Some(text(json)),
            "user_id" => properties.user_id = Some(text(json)),
            "app_id" => properties.app_id = Some(text(json)),
            "cluster_id" => properties.cluster_id = Some(text(json)),
            other => panic!("property {other}"),
        }
    }
    properties
}

fn moment(json: &Json) -> Option<DateTime<Utc>> {
    match json {
        Json::Null => None,
        Json::Number(milliseconds) => DateTime::from_timestamp_millis(milliseconds.as_i64().expect("milliseconds")),
        Json::String(text) => Some(DateTime::parse_from_rfc3339(text).expect("a time").to_utc()),
        other => panic!("time {other}"),
    }
}

/// Panics where the reading differs from what the fixture expects; a field it does not name may be anything.
fn check_reading(name: &str, expect: &Map<String, Json>, reading: &Reading) {
    let (origin, failure) = (&reading.origin, &reading.failure);
    let place = |place: &Option<Text>| place.as_ref().and_then(Text::as_str).map_or(Json::Null, Json::from);
    let said = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);

    for (field, expected) in expect {
        let found = match field.as_str() {
            "framework" => reading.dialect.map_or(Json::Null, Json::from),
            "orig_exchange" => place(&origin.exchange),
            "orig_routing_key" => place(&origin.routing_key),
            "orig_queue" => place(&origin.queue),
            "orig_topic" => place(&origin.topic),
            "orig_partition" => origin.partition.map_or(Json::Null, Json::from),
            "orig_offset" => origin.offset.map_or(Json::Null, Json::from),
            "consumer" => said(&failure.consumer),
            "error_class" => said(&failure.error_class),
            "error_message" => said(&failure.error_message),
            "stack_trace" => said(&failure.traceback),
            "attempts" => failure.attempts.map_or(Json::Null, Json::from),
            "payload_state" => reading.payload_state.as_str().into(),
            "failed_at" => {
                assert_eq!(failure.failed_at, moment(expected), "{name}: {field}");
                continue;
            }
            "orig_timestamp" => {
                assert_eq!(origin.timestamp, moment(expected), "{name}: {field}");
                continue;
            }
            other => panic!("{name}: field {other} of expect is not compared"),
        };
        assert_eq!(&found, expected, "{name}: {field}");
    }
}

/// Panics where a replay differs from what the fixture asks for.
fn check_replay(fixture: &Fixture, publish: &Publish) {
    let (name, replay, delivered) = (&fixture.name, &fixture.json["replay"], fixture.message());
    assert_eq!(publish.exchange, *replay["exchange"].as_str().expect("exchange"), "{name}: exchange");
    assert_eq!(publish.routing_key, *replay["routing_key"].as_str().expect("routing key"), "{name}: routing key");

    let mut wanted: Vec<(Text, Value)> = match replay.get("headers") {
        Some(all) => headers(all).into_iter().collect(),
        None => {
            let keep = replay["keep_headers"].as_array().into_iter().flatten().filter_map(Json::as_str);
            keep.map(|kept| (kept.into(), delivered.headers.get(kept).expect("a header to keep").clone())).collect()
        }
    };
    wanted.extend(replay.get("set_headers").map(headers).into_iter().flatten());
    let mut sent: Vec<_> = publish.message.headers.clone().into_iter().collect();
    wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
    sent.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(sent, wanted, "{name}: headers");
    for gone in ["drop_headers", "strip"] {
        let names = replay.get(gone).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        for gone in names {
            assert!(!publish.message.headers.contains(gone), "{name}: {gone} is still there");
        }
    }

    match replay.get("body") {
        // Words instead of a body say that it stays as it is.
        Some(edited) if edited.is_object() => {
            let sent: Option<Json> = serde_json::from_slice(publish.message.body.as_deref().unwrap_or_default()).ok();
            let edited: Option<Json> = serde_json::from_slice(&body(edited)).ok();
            assert_eq!(sent, edited, "{name}: body");
        }
        _ => assert_eq!(publish.message.body, delivered.body, "{name}: body"),
    }

    let mut wanted = properties(replay.get("properties").unwrap_or(&fixture.json["properties"]));
    wanted.user_id = None;
    assert_eq!(publish.message.properties.amqp(), Some(&wanted), "{name}: properties");
}

#[test]
fn every_recorded_letter_of_a_registered_dialect_is_read_as_expected() {
    let mut checked = 0;
    for fixture in fixtures() {
        let reading = read(&fixture.message(), &fixture.captured());
        if fixture.counts() {
            check_reading(&fixture.name, fixture.expect(), &reading);
            checked += 1;
        }
    }
    assert!(checked >= 23, "only {checked} fixtures were checked");
}

#[test]
fn every_recorded_letter_of_a_registered_dialect_goes_home_as_expected() {
    for fixture in fixtures() {
        let (message, captured) = (fixture.message(), fixture.captured());
        let reading = read(&message, &captured);
        let send = |target| home(reading.dialect, message.clone(), &captured, &reading.origin, &target);

        let (to_queue, to_origin) = (send(Target::Queue), send(Target::Original));
        if !fixture.counts() || fixture.json["replay"].get("exchange").is_none() {
            continue;
        }
        if fixture.expect().get("orig_queue") == Some(&Json::Null) {
            assert_eq!(to_queue, Err(NoHome::UnknownQueue), "{}", fixture.name);
            check_replay(&fixture, &to_origin.expect("an origin"));
        } else {
            check_replay(&fixture, &to_queue.expect("a queue"));
        }
    }
}

#[test]
fn an_origin_that_was_not_stored_is_read_from_the_message_again() {
    for fixture in fixtures() {
        let (message, captured) = (fixture.message(), fixture.captured());
        let reading = read(&message, &captured);
        for target in [Target::Queue, Target::Original] {
            let stored = home(reading.dialect, message.clone(), &captured, &reading.origin, &target);
            let again = home(reading.dialect, message.clone(), &captured, &Default::default(), &target);
            assert_eq!(stored, again, "{}", fixture.name);
        }
    }
}
