//! What must hold for any message.

use proptest::{collection::vec, prelude::*};

use super::{Known, NoHome, Place, Publish, Target, home, read, stamp};
use crate::{
    dead_letter::{CapturedFrom, Origin, PayloadState},
    message::{AmqpProperties, Headers, KafkaProperties, RawMessage, RecordTime, Text, Value},
};

/// Names and texts that dialects look for, so that half-right messages are common.
const WORDS: &[&str] = &[
    "x-death",
    "x-opt-deaths",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-original-exchange",
    "x-original-routingKey",
    "x-exception-message",
    "x-exception-stacktrace",
    "retry-count",
    "queue",
    "reason",
    "exchange",
    "routing-keys",
    "count",
    "time",
    "last-time",
    "rejected",
    "expired",
    "delivery_limit",
    "orders",
    "orders-retry",
    "celery_delayed_3",
    "a.B: x\n\tat a.B.c(B.java:1)\nCaused by: a.Cé: y",
    "\nCaused by: ",
    "CC",
    "x-delay",
    "traceparent",
    "b3",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "dlo-replay-id",
    "kafka_dlt-original-topic",
    "kafka_dlt-original-partition",
    "kafka_dlt-original-offset",
    "kafka_dlt-original-timestamp",
    "kafka_dlt-original-consumer-group",
    "kafka_dlt-exception-fqcn",
    "kafka_dlt-exception-stacktrace",
    "kafka_dlt-key-exception-message",
    "kafka_original-topic",
    "kafka_original-offset",
    "kafka_exception-message",
    "kafka_deliveryAttempt",
    "retry_topic-attempts",
    "springDeserializerExceptionValue",
    "__TypeId__",
    "x-original-topic",
    "x-original-partition",
    "x-exception-fqcn",
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    "__connect.errors.exception.message",
    "__connect.errors.exception.stacktrace",
    "",
];

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        4 => proptest::sample::select(WORDS).prop_map(Text::from),
        1 => vec(any::<u8>(), 0..12).prop_map(Text::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Void),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::Timestamp),
        (0_u64..2_000_000_000).prop_map(Value::Timestamp),
        text().prop_map(Value::Str),
        vec(any::<u8>(), 0..12).prop_map(Value::Bytes),
        vec(any::<u8>(), 1..12).prop_map(Value::Opaque),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            vec((text(), inner), 0..6).prop_map(|table| Value::Table(table.into_iter().collect())),
        ]
    })
}

fn properties() -> impl Strategy<Value = AmqpProperties> {
    let text = || proptest::option::of(text());
    (text(), text(), text(), text(), text(), proptest::option::of(any::<u64>())).prop_map(
        |(message_id, correlation_id, kind, app_id, user_id, timestamp)| AmqpProperties {
            message_id,
            correlation_id,
            kind,
            app_id,
            user_id,
            timestamp,
            ..AmqpProperties::default()
        },
    )
}

fn amqp_message() -> impl Strategy<Value = RawMessage> {
    (properties(), vec((text(), value()), 0..10), vec(any::<u8>(), 0..40))
        .prop_map(|(properties, headers, body)| RawMessage::amqp(properties, headers.into_iter().collect(), body))
}

/// As a consumer makes one: values are bytes or null.
fn record() -> impl Strategy<Value = RawMessage> {
    let value = || {
        prop_oneof![
            1 => Just(Value::Void),
            2 => text().prop_map(|text| Value::Bytes(text.as_bytes().to_vec())),
            2 => any::<i32>().prop_map(|number| Value::Bytes(number.to_be_bytes().to_vec())),
            2 => any::<i64>().prop_map(|number| Value::Bytes(number.to_be_bytes().to_vec())),
            1 => any::<i64>().prop_map(|number| Value::Bytes(number.to_string().into_bytes())),
            1 => vec(any::<u8>(), 0..12).prop_map(Value::Bytes),
        ]
    };
    let time = prop_oneof![any::<i64>().prop_map(RecordTime::Created), any::<i64>().prop_map(RecordTime::Appended)];
    let bytes = || proptest::option::of(vec(any::<u8>(), 0..20));
    (proptest::option::of(time), vec((text(), value()), 0..14), bytes(), bytes()).prop_map(
        |(timestamp, headers, key, value)| {
            let properties = KafkaProperties { timestamp, leader_epoch: None };
            let headers = headers.into_iter().collect();
            RawMessage::kafka(properties, key.map(Into::into), headers, value.map(Into::into))
        },
    )
}

fn message() -> impl Strategy<Value = RawMessage> {
    prop_oneof![amqp_message(), record()]
}

fn captured() -> impl Strategy<Value = CapturedFrom> {
    let name = || proptest::option::of("[a-z.]{0,8}");
    (proptest::option::of(text()), proptest::option::of(text()), name(), name()).prop_map(
        |(exchange, routing_key, queue, topic)| CapturedFrom {
            exchange,
            routing_key,
            queue: queue.map(|queue| queue.as_str().into()),
            topic: topic.map(|topic| topic.as_str().into()),
            ..CapturedFrom::default()
        },
    )
}

fn target() -> impl Strategy<Value = Target> {
    let topic = || (text(), any::<Option<i32>>()).prop_map(|(topic, partition)| Place::Topic { topic, partition });
    prop_oneof![
        Just(Target::Original),
        Just(Target::Queue),
        text().prop_map(Target::queue),
        topic().prop_map(Target::At)
    ]
}

fn send(message: RawMessage, captured: &CapturedFrom, target: &Target) -> Result<Publish, NoHome> {
    let reading = read(&message, captured);
    let is_tombstone = reading.payload_state == PayloadState::Tombstone;
    home(Known { dialect: reading.dialect, captured, origin: &Origin::default(), is_tombstone }, message, target)
}

/// Headers no framework and no broker writes, some only a letter away from one that does.
fn producers() -> impl Strategy<Value = Headers> {
    const NEAR: &[&str] = &[
        "cc",
        "X-Death",
        "x-death2",
        "x-first-deaths",
        "x-original-message-id",
        "retry-counter",
        "tenant",
        "kafka_dlt",
    ];
    let name = prop_oneof![
        proptest::sample::select(NEAR).prop_map(Text::from),
        "[a-z]{1,6}".prop_map(|name| Text::from(format!("biz-{name}"))),
        vec(128_u8.., 1..4).prop_map(Text::from),
    ];
    vec((name, value()), 0..8).prop_map(|headers| headers.into_iter().collect())
}

proptest! {
    #[test]
    fn any_message_is_read_and_its_texts_can_be_stored(message in message(), captured in captured()) {
        let reading = read(&message, &captured);

        let failure = &reading.failure;
        let texts = [&failure.consumer, &failure.error_class, &failure.error_message, &failure.traceback];
        for text in texts.into_iter().chain([&reading.service, &reading.event_type]).flatten() {
            prop_assert!(!text.contains('\0'));
        }
        prop_assert!(failure.attempts.is_none_or(|attempts| attempts >= 0));
        prop_assert!(!reading.notes.to_json().contains("\\u0000"));
        let _ = (super::message_id(&message), super::correlation_id(&message), super::trace_id(&message));
    }

    #[test]
    fn every_way_home_keeps_what_the_producer_sent(
        mut message in message(),
        captured in captured(),
        producers in producers(),
        target in target(),
    ) {
        let theirs = ["x-", "retry-count", "kafka_", "retry_topic-", "__connect."];
        message.headers.retain(|name, _| theirs.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes())));
        for (name, value) in producers.iter() {
            message.headers.push(name.clone(), value.clone());
        }
        if let Ok(publish) = send(message.clone(), &captured, &target) {
            let mut sent = publish.message.clone();
            sent.headers.retain(|name, _| producers.iter().any(|(producer, _)| producer == name));
            prop_assert_eq!(sent.headers, producers);
            prop_assert_eq!((&publish.message.key, &publish.message.body), (&message.key, &message.body));
            let state = read(&message, &captured).payload_state;
            prop_assert!(publish.message.body.is_some() || state == PayloadState::Tombstone);
        }
    }

    #[test]
    fn a_letter_sent_home_twice_carries_nothing_of_the_first_time(message in message(), captured in captured()) {
        let target = match message.properties.kafka() {
            None => Target::queue("orders"),
            Some(_) => Target::At(Place::Topic { topic: "orders".into(), partition: None }),
        };
        let send = |message| send(message, &captured, &target).map(|publish| publish.message);

        let once = match send(message) {
            Err(NoHome::NoValue) => return Ok(()),
            once => once.expect("a named target"),
        };
        let mut stamped = once.clone();
        stamp(&mut stamped, 1, "token");
        match send(stamped) {
            // Without the headers of the one who pointed at it nothing says that it was more than a null.
            Err(NoHome::NoValue) => prop_assert_eq!(once.body, None),
            twice => prop_assert_eq!(twice, Ok(once)),
        }
    }
}
