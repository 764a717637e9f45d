//! What goes in comes out; what is no message is refused.

use proptest::prelude::*;

use super::*;
use crate::message::{AmqpProperties, Headers, KafkaProperties, Properties, RawMessage, RecordTime, Text, Value};

fn text() -> impl Strategy<Value = Text> {
    prop::collection::vec(any::<u8>(), 0..100).prop_map(Text::from)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Void),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        // Not NaN, which is not equal to itself; its bits are a case of their own below.
        any::<f32>().prop_filter("comparable", |v| !v.is_nan()).prop_map(Value::F32),
        any::<f64>().prop_filter("comparable", |v| !v.is_nan()).prop_map(Value::F64),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Value::Decimal { scale, value }),
        text().prop_map(Value::Str),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Value::Bytes),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Value::Opaque),
        any::<u64>().prop_map(Value::Timestamp),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((text(), inner), 0..6).prop_map(|h| Value::Table(h.into_iter().collect())),
        ]
    })
}

fn amqp() -> impl Strategy<Value = AmqpProperties> {
    let texts = prop::array::uniform10(prop::option::of(text()));
    (texts, any::<Option<u8>>(), any::<Option<u8>>(), any::<Option<u64>>()).prop_map(
        |(texts, delivery_mode, priority, timestamp)| {
            let [
                content_type,
                content_encoding,
                correlation_id,
                reply_to,
                expiration,
                message_id,
                kind,
                user_id,
                app_id,
                cluster_id,
            ] = texts;
            AmqpProperties {
                content_type,
                content_encoding,
                delivery_mode,
                priority,
                correlation_id,
                reply_to,
                expiration,
                message_id,
                timestamp,
                kind,
                user_id,
                app_id,
                cluster_id,
            }
        },
    )
}

fn kafka() -> impl Strategy<Value = KafkaProperties> {
    let time = prop_oneof![any::<i64>().prop_map(RecordTime::Created), any::<i64>().prop_map(RecordTime::Appended)];
    (prop::option::of(time), any::<Option<i32>>())
        .prop_map(|(timestamp, leader_epoch)| KafkaProperties { timestamp, leader_epoch })
}

fn properties() -> impl Strategy<Value = Properties> {
    prop_oneof![
        amqp().prop_map(|properties| Properties::Amqp(Box::new(properties))),
        kafka().prop_map(Properties::Kafka)
    ]
}

fn message() -> impl Strategy<Value = RawMessage> {
    (properties(), prop::collection::vec((text(), value()), 0..12)).prop_map(|(properties, headers)| RawMessage {
        body: None,
        key: None,
        headers: headers.into_iter().collect(),
        properties,
    })
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(message in message(), trace in prop::option::of("[a-z\\n]{0,200}")) {
        let mut message = message;
        if let Some(trace) = &trace {
            message.headers.push("trace", Value::Str(trace.as_str().into()));
            message.headers.push("trace", Value::Bytes(trace.clone().into_bytes()));
        }
        let mut bytes = Vec::new();
        encode(&mut bytes, &message, trace.as_deref());
        prop_assert_eq!(decode(&bytes, trace.as_deref()).expect("own bytes decode"), message);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes, None);
        for kind in [KIND_AMQP, KIND_KAFKA] {
            let mut versioned = vec![VERSION, kind];
            versioned.extend_from_slice(&bytes);
            let _ = decode(&versioned, Some("trace"));
        }
    }
}

#[test]
fn nan_keeps_its_bits() {
    let headers: Headers = [("n".into(), Value::F64(f64::from_bits(0x7ff8_0000_dead_beef)))].into_iter().collect();
    let mut bytes = Vec::new();
    encode(&mut bytes, &RawMessage::amqp(AmqpProperties::default(), headers, ""), None);
    let decoded = decode(&bytes, None).expect("decodes");
    let Some(Value::F64(v)) = decoded.headers.get("n") else { panic!("a double") };
    assert_eq!(v.to_bits(), 0x7ff8_0000_dead_beef);
}

#[test]
fn a_trace_is_stored_once_and_a_changed_column_is_noticed() {
    let trace = "java.lang.IllegalStateException\n\tat a.B.c(B.java:1)\n".repeat(20);
    let headers: Headers = [("trace".into(), Value::Str(trace.as_str().into()))].into_iter().collect();
    let mut bytes = Vec::new();
    encode(&mut bytes, &RawMessage::amqp(AmqpProperties::default(), headers, ""), Some(&trace));
    assert!(bytes.len() < 32, "the trace is not repeated: {} bytes", bytes.len());
    assert_eq!(decode(&bytes, Some("something else")), Err(WireError::TracebackChanged));
    assert_eq!(decode(&bytes, None), Err(WireError::TracebackChanged));
}

#[test]
fn an_empty_header_value_is_not_a_null_one() {
    let headers: Headers = [("h".into(), Value::Bytes(Vec::new())), ("h".into(), Value::Void)].into_iter().collect();
    let message = RawMessage::kafka(KafkaProperties::default(), None, headers, None);
    let mut bytes = Vec::new();
    encode(&mut bytes, &message, None);
    assert_eq!(decode(&bytes, None), Ok(message));
}

#[test]
fn letters_stored_before_kafka_are_still_read() {
    let stored = [1, b'a', 0, 8, 1, b'j', 1, 1, b'n', b'I', 0, 0, 0, 7];
    let properties = AmqpProperties { reply_to: Some("j".into()), ..AmqpProperties::default() };
    let headers = [("n".into(), Value::I32(7))].into_iter().collect();
    let message = RawMessage { body: None, ..RawMessage::amqp(properties, headers, "") };
    assert_eq!(decode(&stored, None), Ok(message));
}

#[test]
fn a_newer_version_is_named() {
    assert_eq!(decode(&[9, 0], None), Err(WireError::Version(9)));
}

#[test]
fn nesting_beyond_the_limit_is_refused_not_followed() {
    let mut bytes = vec![VERSION, KIND_AMQP, 0, 0, 1, 0];
    bytes.extend(std::iter::repeat_n([b'A', 1], 100_000).flatten());
    assert_eq!(decode(&bytes, None), Err(WireError::TooDeep));
}
