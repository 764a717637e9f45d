//! What goes home, and where to.

use super::*;
use crate::message::{AmqpProperties, Headers, RecordTime};

fn plain(headers: &[(&str, &str)]) -> RawMessage {
    let headers: Headers = headers.iter().map(|(name, value)| ((*name).into(), Value::Str((*value).into()))).collect();
    RawMessage::amqp(AmqpProperties::default(), headers, "body")
}

fn rejected(exchange: &str, routing_key: &[u8], queue: &str) -> RawMessage {
    let mut table = Headers::new();
    table.push("queue", Value::Str(queue.into()));
    table.push("reason", Value::Str("rejected".into()));
    table.push("exchange", Value::Str(exchange.into()));
    table.push("routing-keys", Value::Array(vec![Value::Str(routing_key.into())]));
    let mut message = plain(&[]);
    message.headers.push("x-death", Value::Array(vec![Value::Table(table)]));
    message
}

fn send(message: RawMessage, origin: &Origin, target: &Target) -> Result<Publish, NoHome> {
    let captured = CapturedFrom::default();
    home(Known { dialect: None, captured: &captured, origin, is_tombstone: false }, message, target)
}

fn at(exchange: impl Into<Text>, routing_key: impl Into<Text>) -> Place {
    Place::Exchange { exchange: exchange.into(), routing_key: routing_key.into() }
}

fn topic(topic: &str, partition: Option<i32>) -> Place {
    Place::Topic { topic: topic.into(), partition }
}

fn record(headers: &[(&str, &str)], value: Option<&'static str>) -> RawMessage {
    let headers = headers.iter().map(|(name, text)| ((*name).into(), Value::Bytes(text.as_bytes().to_vec()))).collect();
    let properties = KafkaProperties { timestamp: Some(RecordTime::Created(1)), leader_epoch: Some(3) };
    RawMessage::kafka(properties, Some("A-1042".into()), headers, value.map(Into::into))
}

#[test]
fn a_plain_letter_has_no_home_unless_a_target_is_named() {
    let origin = Origin::default();
    assert_eq!(send(plain(&[]), &origin, &Target::Original), Err(NoHome::UnknownExchange));
    assert_eq!(send(plain(&[]), &origin, &Target::Queue), Err(NoHome::UnknownQueue));

    let publish = send(plain(&[("retry-count", "3")]), &origin, &Target::queue("orders")).unwrap();
    assert_eq!(publish.place, at("", "orders"));
    assert!(publish.message.headers.contains("retry-count"));
}

#[test]
fn a_routing_key_that_no_text_column_holds_comes_from_the_message() {
    let stored = Origin { exchange: Some("shop".into()), queue: Some("billing".into()), ..Origin::default() };

    let publish = send(rejected("shop", b"\xff\x00", "billing"), &stored, &Target::Original).unwrap();

    assert_eq!(publish.place, at("shop", b"\xff\x00".as_slice()));
}

#[test]
fn the_stored_origin_stands() {
    let stored = Origin { exchange: Some("first".into()), routing_key: Some("key".into()), ..Origin::default() };
    let publish = send(rejected("", b"billing", "billing"), &stored, &Target::Original).unwrap();
    assert_eq!(publish.place, at("first", "key"));
}

#[test]
fn an_origin_stored_in_part_is_not_completed_from_a_message_that_says_something_else() {
    let stored = Origin { exchange: Some("first".into()), queue: Some("billing".into()), ..Origin::default() };
    let publish = send(rejected("shop", b"created", "billing"), &stored, &Target::Original).unwrap();
    assert_eq!(publish.place, at("", "billing"));
}

#[test]
fn where_the_original_exchange_is_unknown_the_failed_queue_is_home() {
    let stored = Origin { queue: Some("billing".into()), ..Origin::default() };
    let publish = send(plain(&[]), &stored, &Target::Original).unwrap();
    assert_eq!(publish.place, at("", "billing"));
}

#[test]
fn what_brokers_wrote_goes_and_what_looks_alike_stays() {
    let message = plain(&[
        ("x-shovelled", "1"),
        ("x-shovelled-timestamp", "1"),
        ("x-received-from", "1"),
        ("x-delay", "-5000"),
        ("CC", "a"),
        ("BCC", "a"),
        ("x-delivery-count", "2"),
        ("x-acquired-count", "2"),
        ("x-stream-offset", "0"),
        ("x-opt-deaths", "0"),
        ("x-first-death-queue", "a"),
        ("x-last-death-queue", "a"),
        ("dlo-letter-id", "1"),
        ("dlo-replay-id", "t"),
        ("Cc", "a"),
        ("x-deaths", "a"),
        ("x-delayed", "a"),
        ("x-stream-filter-value", "a"),
    ]);

    let publish = send(message, &Origin::default(), &Target::queue("orders")).unwrap();

    let left: Vec<_> = publish.message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["Cc", "x-deaths", "x-delayed", "x-stream-filter-value"]);
}

#[test]
fn of_the_properties_only_the_user_goes() {
    let properties = AmqpProperties {
        user_id: Some("app".into()),
        expiration: Some("60000".into()),
        message_id: Some("m-1".into()),
        kind: Some("amqp-1.0".into()),
        ..AmqpProperties::default()
    };
    let message = RawMessage::amqp(properties.clone(), Headers::new(), "body");

    let publish = send(message, &Origin::default(), &Target::queue("orders")).unwrap();

    assert_eq!(publish.message.properties.amqp(), Some(&AmqpProperties { user_id: None, ..properties }));
}

#[test]
fn the_leftovers_of_every_dialect_that_recognises_the_message_go() {
    let mut message = rejected("shop", b"created", "billing");
    message.headers.push("x-original-exchange", Value::Str("shop".into()));
    message.headers.push("x-original-routingKey", Value::Str("created".into()));
    message.headers.push("tenant", Value::Str("eu-1".into()));

    let stored = Origin { queue: Some("billing".into()), ..Origin::default() };
    let captured = CapturedFrom::default();
    let known = Known { dialect: Some("rabbitmq-native"), captured: &captured, origin: &stored, is_tombstone: false };
    let publish = home(known, message, &Target::Queue).unwrap();

    let left: Vec<_> = publish.message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["tenant"]);
}

#[test]
fn a_second_stamp_replaces_the_first() {
    let mut message = plain(&[("tenant", "eu-1")]);
    stamp(&mut message, 7, "first");
    stamp(&mut message, 8, "second");
    assert_eq!(message.headers, plain(&[("tenant", "eu-1"), (LETTER_ID, "8"), (REPLAY_ID, "second")]).headers);
}

#[test]
fn a_record_goes_to_its_topic_and_partition_as_a_new_record() {
    let message = record(&[("tenant", "eu-1"), ("dlo-replay-id", "old")], Some("{}"));
    let stored = Origin { topic: Some("orders".into()), partition: Some(3), ..Origin::default() };

    let mut publish = send(message, &stored, &Target::Original).unwrap();
    assert_eq!(publish.place, topic("orders", Some(3)));
    assert_eq!(publish.message.properties.kafka(), Some(&KafkaProperties::default()));

    stamp(&mut publish.message, 7, "token");
    let expected = record(&[("tenant", "eu-1"), (LETTER_ID, "7"), (REPLAY_ID, "token")], Some("{}"));
    assert_eq!(publish.message, RawMessage { properties: Properties::Kafka(KafkaProperties::default()), ..expected });
}

#[test]
fn a_record_of_unknown_origin_goes_only_to_a_named_topic() {
    let unknown = Origin::default();
    let send = |target| send(record(&[], Some("{}")), &unknown, &target).map(|publish| publish.place);
    assert_eq!(send(Target::Original), Err(NoHome::UnknownTopic));
    assert_eq!(send(Target::Queue), Err(NoHome::UnknownGroupTopic));
    assert_eq!(send(Target::At(topic("orders", None))), Ok(topic("orders", None)));
}

#[test]
fn a_topic_that_only_the_group_reads_is_its_queue() {
    let message =
        record(&[("kafka_dlt-original-topic", "orders"), ("kafka_dlt-original-topic", "orders-retry-0")], Some("{}"));
    let publish = send(message, &Origin::default(), &Target::Queue).unwrap();
    assert_eq!(publish.place, topic("orders-retry-0", None));
    assert!(publish.message.headers.is_empty());
}

#[test]
fn a_null_goes_out_only_for_a_tombstone() {
    let captured = CapturedFrom::default();
    let origin = Origin { topic: Some("orders".into()), ..Origin::default() };
    let send = |is_tombstone, target| {
        home(Known { dialect: None, captured: &captured, origin: &origin, is_tombstone }, record(&[], None), &target)
    };
    for target in [Target::Original, Target::At(topic("other", Some(0)))] {
        assert_eq!(send(false, target.clone()), Err(NoHome::NoValue));
        assert_eq!(send(true, target).unwrap().message.body, None);
    }
}

#[test]
fn the_other_brokers_places_are_refused() {
    let origin = Origin::default();
    let to_topic = Target::At(topic("orders", None));
    assert_eq!(send(plain(&[]), &origin, &to_topic), Err(NoHome::NotOnKafka));
    assert_eq!(send(record(&[], Some("{}")), &origin, &Target::queue("orders")), Err(NoHome::NotOnRabbitmq));
}

#[test]
fn what_rabbitmq_would_have_written_is_a_producers_header_on_kafka() {
    let message = record(&[("CC", "a"), ("x-delay", "5")], Some("{}"));
    let publish = send(message.clone(), &Origin::default(), &Target::At(topic("orders", None))).unwrap();
    assert_eq!(publish.message.headers, message.headers);
}
