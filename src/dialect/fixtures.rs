//! Recorded dead letters as tests: every one is read, and those of registered dialects are checked in full.
//!
//! `expect` and `replay` of a letter whose framework is not registered yet are skipped, so that a dialect's
//! fixtures start to count with its line in the registry.

mod kafka;
mod rabbitmq;

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value as Json};

use super::{Known, NoHome, Publish, REGISTRY, Target, home, read};
use crate::{
    dead_letter::{CapturedFrom, Origin, PayloadState, Reading},
    message::{RawMessage, Text, wire},
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
    files.into_iter().map(fixture).collect()
}

impl Fixture {
    fn on_kafka(&self) -> bool {
        self.json["broker"] == "kafka"
    }

    fn message(&self) -> RawMessage {
        if self.on_kafka() { kafka::message(&self.json) } else { rabbitmq::message(&self.json) }
    }

    fn captured(&self) -> CapturedFrom {
        if self.on_kafka() { kafka::captured(&self.json) } else { rabbitmq::captured(&self.json) }
    }

    fn read(&self) -> Reading {
        read(&self.message(), &self.captured())
    }

    fn home(&self, reading: &Reading, origin: &Origin, target: &Target) -> Result<Publish, NoHome> {
        let is_tombstone = reading.payload_state == PayloadState::Tombstone;
        let known = Known { dialect: reading.dialect, captured: &self.captured(), origin, is_tombstone };
        home(known, self.message(), target)
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

fn body(json: &Json) -> Vec<u8> {
    let kind = json.as_object().and_then(|body| body.iter().next()).expect("a body");
    match (kind.0.as_str(), kind.1) {
        ("utf8", Json::String(text)) => text.clone().into_bytes(),
        ("json", json) => json.to_string().into_bytes(),
        ("b64", _) => bytes(json),
        other => panic!("body {other:?}"),
    }
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

/// Panics where a header is still there that has to be gone.
fn check_gone(fixture: &Fixture, publish: &Publish) {
    let replay = &fixture.json["replay"];
    for gone in ["drop_headers", "strip"] {
        let names = replay.get(gone).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        for gone in names {
            assert!(!publish.message.headers.contains(gone), "{}: {gone} is still there", fixture.name);
        }
    }
}

#[test]
fn every_recorded_letter_of_a_registered_dialect_is_read_as_expected() {
    let mut checked = [0, 0];
    for fixture in fixtures() {
        let reading = fixture.read();
        if fixture.counts() {
            check_reading(&fixture.name, fixture.expect(), &reading);
            checked[usize::from(fixture.on_kafka())] += 1;
        }
    }
    let [rabbitmq, kafka] = checked;
    assert!(rabbitmq >= 23 && kafka >= 13, "only {rabbitmq} letters of RabbitMQ and {kafka} of Kafka were checked");
}

#[test]
fn every_recorded_letter_of_a_registered_dialect_goes_home_as_expected() {
    let mut checked = [0, 0];
    for fixture in fixtures() {
        let reading = fixture.read();
        let send = |target| fixture.home(&reading, &reading.origin, &target);
        let (to_queue, to_origin) = (send(Target::Queue), send(Target::Original));
        let replay = &fixture.json["replay"];
        let place = if fixture.on_kafka() { "topic" } else { "exchange" };
        if !fixture.counts() || replay.get(place).is_none() {
            continue;
        }
        if fixture.on_kafka() {
            assert_eq!(to_queue, Err(NoHome::UnknownGroupTopic), "{}", fixture.name);
            if replay.get("requires").is_some() {
                assert_eq!(to_origin, Err(NoHome::NoValue), "{}", fixture.name);
            } else {
                kafka::check_replay(&fixture, &to_origin.expect("an origin"));
            }
        } else if fixture.expect().get("orig_queue") == Some(&Json::Null) {
            assert_eq!(to_queue, Err(NoHome::UnknownQueue), "{}", fixture.name);
            rabbitmq::check_replay(&fixture, &to_origin.expect("an origin"));
        } else {
            rabbitmq::check_replay(&fixture, &to_queue.expect("a queue"));
        }
        checked[usize::from(fixture.on_kafka())] += 1;
    }
    let [rabbitmq, kafka] = checked;
    assert!(rabbitmq >= 20 && kafka >= 13, "only {rabbitmq} letters of RabbitMQ and {kafka} of Kafka were sent");
}

#[test]
fn an_origin_that_was_not_stored_is_read_from_the_message_again() {
    for fixture in fixtures() {
        let reading = fixture.read();
        for target in [Target::Queue, Target::Original] {
            let stored = fixture.home(&reading, &reading.origin, &target);
            let again = fixture.home(&reading, &Origin::default(), &target);
            assert_eq!(stored, again, "{}", fixture.name);
        }
    }
}

#[test]
fn every_recorded_letter_survives_its_wire_form() {
    for fixture in fixtures() {
        let (message, mut stored) = (fixture.message(), Vec::new());
        let traceback = fixture.read().failure.traceback;
        wire::encode(&mut stored, &message, traceback.as_deref());
        let again = wire::decode(&stored, traceback.as_deref()).expect("own bytes");
        let (body, key) = (message.body.clone(), message.key.clone());
        assert_eq!(RawMessage { body, key, ..again }, message, "{}", fixture.name);
    }
}
