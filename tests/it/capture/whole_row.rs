//! What is in a row, and that the message can be made from it again byte for byte.

use std::time::Duration;

use dead_letter_office::{
    message::{AmqpProperties, Headers, RawMessage, Text, Value},
    source::rabbitmq::topology::{Queue, QueueType},
};
use lapin::ExchangeKind;

use crate::support::{
    SOON,
    bench::Bench,
    database, eventually,
    messages::{headers, message, random_bytes, text},
    rabbit::{Rabbit, string},
};

#[tokio::test]
async fn a_rejected_message_tells_its_whole_story() {
    // Given: orders.eu dies in a queue whose dead letters go to an exchange that is ours.
    let (rabbit, database) = (Rabbit::connect().await, database::Database::fresh().await);
    let (dlx, dlq) = (rabbit.exchange_name(), rabbit.queue_name());
    let orders = rabbit.exchange(ExchangeKind::Topic).await;
    let live = rabbit.queue_with(QueueType::Quorum, [("x-dead-letter-exchange", string(&dlx))]).await;
    rabbit.bind(&live, &orders, "orders.*").await;
    let mut plan = crate::support::capture::Plan::new(&rabbit, &database, &dlq);
    plan.queue = Queue { name: dlq.clone(), exchange: Some(dlx.clone()), queue_type: QueueType::Quorum };
    let office = plan.start();
    office.receiving().await;

    // When: a consumer refuses a message.
    let properties = AmqpProperties {
        content_type: Some("application/json".into()),
        app_id: Some("checkout".into()),
        kind: Some("OrderPlaced".into()),
        message_id: Some("m-1".into()),
        correlation_id: Some("c-1".into()),
        timestamp: Some(1_700_000_000),
        delivery_mode: Some(2),
        ..AmqpProperties::default()
    };
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let table = headers([("tenant", text("eu-1")), ("traceparent", text(trace)), ("attempt", Value::I32(3))]);
    let body = r#"{"order": 1, "total": 1.50}"#;
    rabbit.publish(&orders, "orders.eu", &[RawMessage::amqp(properties.clone(), table.clone(), body)]).await;
    let before = database::now() - chrono::Duration::minutes(1);
    rabbit.reject_one(&live).await;
    eventually("a row", SOON, async || (database.count().await == 1).then_some(())).await;
    office.stop().await;

    // Then
    let letter = database.letter().await;
    let some = |text: &str| Some(text.to_owned());
    assert_eq!((letter.service_name.as_str(), letter.event_type.as_str()), ("checkout", "OrderPlaced"));
    assert_eq!(letter.payload, some(r#"{"order": 1, "total": 1.50}"#));
    assert_eq!((letter.status.as_str(), letter.retry_count), ("FAILED", 0));
    assert_eq!(letter.error_message, some("rejected"));
    assert_eq!((letter.traceback.clone(), letter.error_class.clone()), (None, None));
    assert!(letter.created_at > before);
    assert_eq!((letter.source.as_deref(), letter.broker.as_deref()), (Some("orders"), Some("rabbit")));
    assert_eq!((letter.broker_kind.as_str(), letter.vhost.as_deref()), ("rabbitmq", Some("/")));
    assert_eq!(letter.dialect, some("rabbitmq-native"));
    assert_eq!((letter.origin_exchange.clone(), letter.origin_routing_key.clone()), (Some(orders), some("orders.eu")));
    assert_eq!((letter.origin_queue.clone(), letter.consumer.clone()), (Some(live.clone()), Some(live)));
    assert_eq!(letter.origin_topic, None);
    assert_eq!(letter.origin_timestamp.map(|at| at.timestamp()), Some(1_700_000_000));
    assert_eq!((letter.captured_queue.clone(), letter.captured_exchange.clone()), (Some(dlq), Some(dlx)));
    assert_eq!(letter.captured_routing_key, some("orders.eu"));
    assert_eq!((letter.message_id.clone(), letter.correlation_id.clone()), (some("m-1"), some("c-1")));
    assert_eq!(letter.trace_id, some("4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!((letter.message_key.clone(), letter.payload_state.as_str()), (None, "complete"));
    assert_eq!(letter.body.as_deref(), Some(body.as_bytes()));
    assert!(letter.failed_at.is_some_and(|at| at > before));
    assert_eq!((letter.attempts, letter.replay_of, letter.duplicate_of), (Some(1), None, None));
    assert!(letter.capture_session.is_some());
    assert_eq!((letter.delivery_tag, letter.notes.clone()), (Some(1), None));
    let shown = letter.headers();
    assert_eq!((&shown["tenant"], &shown["attempt"]), (&"eu-1".into(), &3.into()));
    assert_eq!(shown["x-death"][0]["reason"], "rejected");
    let again = letter.message();
    assert_eq!(again.properties.amqp(), Some(&properties));
    for (name, value) in table.iter() {
        assert_eq!(again.headers.get(name.as_str().expect("text")), Some(value));
    }
}

/// Every type of AMQP with its least and greatest value, and three levels of it.
fn every_type() -> Headers {
    let scalars = headers([
        ("void", Value::Void),
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("i8 least", Value::I8(i8::MIN)),
        ("i8 most", Value::I8(i8::MAX)),
        ("u8", Value::U8(u8::MAX)),
        ("i16 least", Value::I16(i16::MIN)),
        ("i16 most", Value::I16(i16::MAX)),
        ("u16", Value::U16(u16::MAX)),
        ("i32 least", Value::I32(i32::MIN)),
        ("i32 most", Value::I32(i32::MAX)),
        ("u32", Value::U32(u32::MAX)),
        ("i64 least", Value::I64(i64::MIN)),
        ("i64 most", Value::I64(i64::MAX)),
        ("f32", Value::F32(f32::MIN_POSITIVE)),
        ("f64", Value::F64(f64::MAX)),
        ("decimal", Value::Decimal { scale: 255, value: u32::MAX }),
        ("empty string", text("")),
        ("long string", text(&"é".repeat(5_000))),
        ("string of bytes", Value::Str(Text::from(vec![0x00, 0x01, 0xff, 0xfe, 0xc3, 0x28]))),
        ("bytes", Value::Bytes((0..=255).collect())),
        ("no bytes", Value::Bytes(Vec::new())),
        ("time", Value::Timestamp(u64::MAX)),
        ("time zero", Value::Timestamp(0)),
        ("no list", Value::Array(Vec::new())),
        ("no table", Value::Table(Headers::new())),
    ]);
    let list: Vec<Value> = scalars.iter().map(|(_, value)| value.clone()).collect();
    let second = headers([("table", Value::Table(scalars.clone())), ("list", Value::Array(list.clone()))]);
    let mut first = scalars;
    first.push("second", Value::Table(second.clone()));
    first.push("lists of tables", Value::Array(vec![Value::Table(second), Value::Array(list)]));
    first.push("void", text("a name that repeats"));
    first
}

#[tokio::test]
async fn every_property_and_every_type_of_header_comes_back_as_a_plain_consumer_reads_it() {
    let bench = Bench::new().await;
    let other = bench.rabbit.queue(QueueType::Classic).await;
    let exchange = bench.rabbit.exchange(ExchangeKind::Fanout).await;
    bench.rabbit.bind(&bench.queue, &exchange, "").await;
    bench.rabbit.bind(&other, &exchange, "").await;
    let properties = AmqpProperties {
        content_type: Some("application/octet-stream".into()),
        content_encoding: Some("gzip".into()),
        delivery_mode: Some(1),
        priority: Some(9),
        correlation_id: Some("ü".repeat(100).as_str().into()),
        reply_to: Some("answers".into()),
        expiration: Some("600000".into()),
        message_id: Some("".into()),
        timestamp: Some(u64::MAX),
        kind: Some("a.Type".into()),
        user_id: Some("guest".into()),
        app_id: Some("app".into()),
        cluster_id: Some("cluster".into()),
    };
    let sent = RawMessage::amqp(properties, every_type(), random_bytes(1000, 3));
    bench.rabbit.publish_raw(&exchange, Text::default(), std::slice::from_ref(&sent)).await;

    let letters = bench.capture(1).await;

    let (_connection, channel) = bench.rabbit.raw().await;
    let read = channel.get(&other, SOON).await.expect("gets").expect("a message").message;
    let stored = letters[0].message();
    assert_eq!(stored.properties, read.properties);
    assert_eq!(stored.headers, read.headers);
    assert_eq!(stored.body, read.body);
}

#[tokio::test]
async fn bodies_of_any_size_are_stored_as_they_were_sent() {
    const FRAME: usize = 131_072 - 8;
    let bench = Bench::new().await;
    let sizes = [0, 1, 2_000, FRAME - 1, FRAME, FRAME + 1, 1 << 20, 16 << 20, 64 << 20];
    let messages: Vec<_> = sizes.iter().map(|size| message(random_bytes(*size, 5))).collect();

    let letters = bench.send_and_capture(&messages).await;

    for (letter, sent) in letters.iter().zip(&messages) {
        assert!(letter.body.as_deref() == sent.body.as_deref(), "{:?} bytes", letter.body.as_ref().map(Vec::len));
    }
}

#[tokio::test]
async fn a_message_far_larger_than_the_budget_is_admitted_alone() {
    let bench = Bench::new().await;
    let mut messages: Vec<_> = (0..5).map(|n| message(random_bytes(2_000, n))).collect();
    messages.insert(3, message(random_bytes(100 << 20, 9)));
    let mut plan = bench.plan();
    plan.share = 4 << 20;
    plan.limits.bytes = 1 << 20;
    bench.rabbit.publish_to(&bench.queue, &messages).await;

    let letters = bench.capture_with(plan, 6).await;

    assert!(letters.iter().map(|letter| letter.body.as_deref()).eq(messages.iter().map(|m| m.body.as_deref())));
}

#[tokio::test]
async fn a_batch_of_large_bodies_is_cut_by_bytes() {
    let bench = Bench::with(QueueType::Classic).await;
    let messages: Vec<_> = (0..40).map(|n| message(random_bytes(4 << 20, n))).collect();
    bench.rabbit.publish_to(&bench.queue, &messages).await;

    let letters = bench.capture(40).await;

    assert!(letters.iter().map(|letter| letter.body.as_deref()).eq(messages.iter().map(|m| m.body.as_deref())));
}

#[tokio::test]
async fn a_message_is_in_the_table_within_a_moment_of_its_publication() {
    let bench = Bench::new().await;
    let office = bench.plan().start();
    office.receiving().await;
    let mut slowest = Duration::ZERO;

    for n in 0..20 {
        let published = std::time::Instant::now();
        bench.rabbit.publish_to(&bench.queue, &[message(format!("{n}"))]).await;
        eventually("the row", SOON, async || (bench.database.count().await == n + 1).then_some(())).await;
        slowest = slowest.max(published.elapsed());
    }

    // Far above what it takes; a batch that waits for company or for a timer is seen all the same.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    office.stop().await;
}
