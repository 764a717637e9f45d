//! What the recorded letters do not show: odd values, both families at once, keys, nulls.

use super::*;
use crate::{
    dialect::spring_kafka_retry_topic::SpringKafkaRetryTopic,
    message::{Headers, KafkaProperties},
};

fn message(headers: &[(&str, &[u8])]) -> RawMessage {
    let headers: Headers = headers.iter().map(|(name, value)| ((*name).into(), Value::Bytes(value.to_vec()))).collect();
    RawMessage::kafka(KafkaProperties::default(), Some("k".into()), headers, Some("{}".into()))
}

fn read(message: &RawMessage) -> Reading {
    SpringKafka.read(message, &CapturedFrom::default()).expect("a letter of Spring")
}

fn read_retried(message: &RawMessage) -> Reading {
    SpringKafkaRetryTopic.read(message, &CapturedFrom::default()).expect("a letter of a retry topic")
}

const TOPIC: (&str, &[u8]) = ("kafka_dlt-original-topic", b"orders");

#[test]
fn the_group_alone_and_names_of_an_ordinary_listener_are_no_letter() {
    let message = message(&[
        ("kafka_dlt-original-consumer-group", b"billing"),
        ("kafka_correlationId", b"1"),
        ("kafka_deliveryAttempt", &[0, 0, 0, 1]),
        ("kafka_originals", b"x"),
    ]);
    assert_eq!(SpringKafka.read(&message, &CapturedFrom::default()), None);
    assert_eq!(SpringKafkaRetryTopic.read(&message, &CapturedFrom::default()), None);
}

#[test]
fn attempts_are_known_where_the_container_counts_them() {
    for (value, attempts) in [(&[0, 0, 0, 4][..], Some(4)), (b"4", Some(4)), (&[0xff; 4], None), (&[0; 3], None)] {
        let message = message(&[TOPIC, ("kafka_deliveryAttempt", value)]);
        assert_eq!(read(&message).failure.attempts, attempts, "{value:?}");
    }
}

#[test]
fn the_number_of_the_next_attempt_has_one_byte_or_four() {
    for (value, attempts) in [
        (&[4][..], Some(3)),
        (&[0, 0, 0, 4], Some(3)),
        (b"4", Some(3)),
        (&[0], None),
        (&[0x80, 0, 0, 0], None),
        (b"", None),
        (&[0, 4], None),
    ] {
        let message = message(&[("retry_topic-attempts", &[9]), ("retry_topic-attempts", value)]);
        assert_eq!(read_retried(&message).failure.attempts, attempts, "{value:?}");
    }
}

#[test]
fn a_letter_that_piled_up_a_block_at_each_retry_topic_goes_back_to_the_first() {
    let message = message(&[
        TOPIC,
        ("kafka_dlt-original-topic", b"orders-retry-0"),
        ("kafka_dlt-original-topic", b"orders-retry-1"),
        ("kafka_dlt-original-partition", &[0, 0, 0, 2]),
    ]);
    let reading = read(&message);
    assert_eq!(reading.origin.topic, Some("orders".into()));
    assert_eq!(reading.notes.to_json(), r#"{"last_origin":{"topic":"orders-retry-1","partition":2}}"#);
    assert_eq!(
        SpringKafka.group_topic(&message),
        Some(Place::Topic { topic: "orders-retry-1".into(), partition: Some(2) })
    );
}

#[test]
fn with_both_families_the_retry_topics_own_names_are_the_older_ones_and_the_last_exception_counts() {
    let message = message(&[
        ("kafka_original-topic", b"orders"),
        ("kafka_original-offset", &[0, 0, 0, 0, 0, 0, 0, 7]),
        ("kafka_exception-message", b"first"),
        ("kafka_dlt-original-topic", b"orders-retry-1"),
        ("kafka_dlt-original-offset", &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("kafka_dlt-exception-message", b"last"),
        ("retry_topic-attempts", &[0, 0, 0, 3]),
    ]);
    let reading = read_retried(&message);
    assert_eq!((reading.origin.topic, reading.origin.offset), (Some("orders".into()), Some(7)));
    assert_eq!(reading.failure.error_message.as_deref(), Some("last"));
    assert_eq!(reading.notes.to_json(), r#"{"last_origin":{"topic":"orders-retry-1","offset":1}}"#);
    assert_eq!(read(&message).origin.topic, Some("orders".into()));
}

#[test]
fn only_a_topic_named_after_the_origin_is_the_groups_own() {
    for last in ["orders", "other-retry-0", "orders-archive"] {
        let message = message(&[TOPIC, ("kafka_dlt-original-topic", last.as_bytes())]);
        assert_eq!(SpringKafka.group_topic(&message), None, "{last}");
    }
}

#[test]
fn a_failed_key_is_told_under_names_of_its_own() {
    let message = message(&[
        TOPIC,
        ("kafka_dlt-key-exception-fqcn", b"a.KeyFailed"),
        ("kafka_dlt-exception-cause-fqcn", b"a.Cause"),
        ("kafka_dlt-key-exception-message", b"bad key"),
    ]);
    let failure = read(&message).failure;
    assert_eq!(failure.error_class.as_deref(), Some("a.Cause"));
    assert_eq!(failure.error_message.as_deref(), Some("bad key"));
}

#[test]
fn a_type_name_behind_the_origin_says_that_the_value_was_encoded_anew() {
    let behind = message(&[TOPIC, ("__TypeId__", b"a.Order")]);
    let before = message(&[("__TypeId__", b"a.Order"), TOPIC]);
    assert_eq!(read(&behind).payload_state, PayloadState::Lossy);
    assert_eq!(read(&before).payload_state, PayloadState::Complete);
}

#[test]
fn a_null_is_a_tombstone_unless_nothing_says_that_there_was_a_record() {
    let of = |key: Option<&'static str>, group: bool| {
        let mut message = message(if group { &[TOPIC, ("kafka_dlt-original-consumer-group", b"g")] } else { &[TOPIC] });
        (message.key, message.body) = (key.map(Into::into), None);
        read(&message).payload_state
    };
    assert_eq!(of(Some("k"), true), PayloadState::Tombstone);
    assert_eq!(of(None, true), PayloadState::Tombstone);
    assert_eq!(of(Some("k"), false), PayloadState::Tombstone);
    assert_eq!(of(None, false), PayloadState::Pointer);
}

#[test]
fn all_that_the_framework_wrote_goes_and_what_looks_alike_stays() {
    let mut message = message(&[
        TOPIC,
        ("kafka_original-topic", b"orders"),
        ("kafka_exception-fqcn", b"a"),
        ("kafka_key-exception-fqcn", b"a"),
        ("kafka_dlt-key-exception-fqcn", b"a"),
        ("retry_topic-attempts", b"1"),
        ("kafka_deliveryAttempt", b"1"),
        ("springDeserializerExceptionValue", &[0xac, 0xed]),
        ("springDeserializerExceptionKey", &[0xac, 0xed]),
        ("kafka_correlationId", b"1"),
        ("__TypeId__", b"a.Order"),
        ("retry_topics", b"1"),
    ]);
    SpringKafka.freshen(&mut message);
    let left: Vec<_> = message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["kafka_correlationId", "__TypeId__", "retry_topics"]);
}
