//! What arrives is what died, but for what is documented to change.

use dead_letter_office::{
    amqp::raw::RawDelivery,
    dialect::{Place, Target},
    message::{AmqpProperties, Headers, RawMessage, Text, Value},
    source::rabbitmq::topology::QueueType,
};
use lapin::{ExchangeKind, types::AMQPValue};

use crate::support::{
    messages::{headers, message, random_bytes, sorted, text},
    rabbit::{Rabbit, string},
    services,
    shop::{CREATED, Shop},
};

/// Every property and every type of header.
fn full(body: Vec<u8>) -> RawMessage {
    let properties = AmqpProperties {
        content_type: Some("application/json".into()),
        content_encoding: Some("identity".into()),
        delivery_mode: Some(2),
        priority: Some(3),
        correlation_id: Some("c-1".into()),
        reply_to: Some("replies".into()),
        expiration: Some("600000".into()),
        message_id: Some("m-1".into()),
        timestamp: Some(1_700_000_000),
        kind: Some("orders.created.v1".into()),
        user_id: Some("guest".into()),
        app_id: Some("shop".into()),
        cluster_id: Some("old".into()),
    };
    let inner = headers([("deep", Value::Array(vec![Value::I8(-1), text("x"), Value::Void]))]);
    let table = headers([
        ("void", Value::Void),
        ("bool", Value::Bool(true)),
        ("i8", Value::I8(-8)),
        ("u8", Value::U8(200)),
        ("i16", Value::I16(-300)),
        ("u16", Value::U16(60_000)),
        ("i32", Value::I32(-70_000)),
        ("u32", Value::U32(4_000_000_000)),
        ("i64", Value::I64(-5_000_000_000)),
        ("f32", Value::F32(0.5)),
        ("f64", Value::F64(-2.25)),
        ("decimal", Value::Decimal { scale: 2, value: 12_345 }),
        ("str", text("hé")),
        ("empty", text("")),
        ("long", text(&"y".repeat(20_000))),
        ("not utf-8", Value::Str(Text::from(&b"\xff\x00"[..]))),
        ("bytes", Value::Bytes(vec![0, 1, 255])),
        ("timestamp", Value::Timestamp(1_700_000_001)),
        ("table", Value::Table(inner)),
    ]);
    RawMessage::amqp(properties, table, body)
}

/// A message without what the office adds, headers in order.
fn plain(delivery: &RawDelivery) -> RawMessage {
    let mut message = delivery.message.clone();
    for name in ["dlo-letter-id", "dlo-replay-id"] {
        let added: Vec<_> = message.headers.iter().filter(|(n, _)| n == name).collect();
        assert!(matches!(added.as_slice(), [(_, Value::Str(_))]), "{name}: {added:?}");
        message.headers.retain(|n, _| n != name);
    }
    message.headers = sorted(&message.headers);
    message
}

/// What is expected of a message that died and came home.
fn fresh(message: &RawMessage) -> RawMessage {
    let mut message = message.clone();
    let properties = message.properties.amqp_mut().expect("amqp");
    // The broker refuses that of another user; and it takes off the other one when a message dies.
    (properties.user_id, properties.expiration) = (None, None);
    message.headers = sorted(&message.headers);
    message
}

async fn comes_home_as_it_was_published(rabbit: Rabbit) {
    let shop = Shop::open_at(rabbit).await;
    let bodies = [Vec::new(), b"x".to_vec(), random_bytes(1 << 20, 1), random_bytes((1 << 20) + 1, 2)];
    let messages = bodies.map(full);
    shop.rabbit.publish(&shop.exchange, CREATED, &messages).await;
    let office = shop.capture();
    for _ in &messages {
        shop.rabbit.reject_one(&shop.queue).await;
    }
    shop.captured(office, 4).await;

    shop.request_all().await;
    let clerk = shop.rules().start();
    let mut home = shop.rabbit.take(&shop.queue, 4).await;
    shop.all_ended().await;
    clerk.stop().await;

    home.sort_by_key(|delivery| delivery.message.body.as_ref().map_or(0, |body| body.len()));
    for (delivery, message) in home.iter().zip(&messages) {
        assert_eq!((delivery.exchange.as_str(), delivery.routing_key.as_str()), (Some(&*shop.exchange), Some(CREATED)));
        assert_eq!(plain(delivery), fresh(message));
    }
    assert_eq!(shop.outcomes().await, [("DONE ROUTED".to_owned(), 4)]);
    assert_eq!(shop.database.statuses().await, [("REPLAYED".to_owned(), 4)].into());
}

#[tokio::test]
async fn a_letter_comes_home_as_it_was_published() {
    comes_home_as_it_was_published(Rabbit::connect().await).await;
}

#[tokio::test]
async fn a_letter_comes_home_as_it_was_published_on_rabbitmq_4() {
    comes_home_as_it_was_published(Rabbit::at(services::rabbitmq4()).await).await;
}

#[tokio::test]
async fn a_body_of_64_mebibytes_comes_home() {
    let shop = Shop::open().await;
    let body = random_bytes(64 << 20, 3);
    let letters = shop.letters(&shop.exchange, CREATED, vec![message(body.clone())]).await;
    let replay = shop.send(letters[0], &Target::Original).await;
    assert_eq!((replay.state.as_str(), replay.verdict.as_deref()), ("DONE", Some("ROUTED")));
    let home = shop.rabbit.take(&shop.queue, 1).await;
    assert!(home[0].message.body.as_deref() == Some(body.as_slice()));
}

#[tokio::test]
async fn what_lapin_cannot_hold_comes_home_exactly() {
    let shop = Shop::open().await;
    let odd = || Text::from(&b"\xf0\x28\x8c\x28"[..]);
    let mut properties = message("").properties.amqp().expect("amqp").clone();
    properties.correlation_id = Some(odd());
    let odd_property = RawMessage::amqp(properties.clone(), Headers::new(), "property");
    properties.correlation_id = None;
    let mut odd_headers: Headers = [(odd(), text("v"))].into_iter().collect();
    odd_headers.push("twice", text("a"));
    odd_headers.push("twice", text("b"));
    let odd_name = RawMessage::amqp(properties.clone(), odd_headers, "name");
    // Deeper than is taken apart, as bytes: a value is a letter and what it says of itself.
    let nested = (0..400).fold(b"t\x01".to_vec(), |inner, _| {
        let entry = [b"\x01t", inner.as_slice()].concat();
        [b"F", &(entry.len() as u32).to_be_bytes()[..], &entry].concat()
    });
    let nested = Value::Opaque(nested);
    let deep = RawMessage::amqp(properties, headers([("deep", nested)]), "nested");
    let messages = vec![odd_name, deep, odd_property];

    let office = shop.capture();
    shop.die_raw(&shop.exchange, odd(), messages.clone()).await;
    shop.captured(office, 3).await;
    shop.request_all().await;
    let clerk = shop.rules().start();
    shop.all_ended().await;
    clerk.stop().await;
    assert_eq!(shop.outcomes().await, [("DONE ROUTED".to_owned(), 3)]);

    let mut home = shop.rabbit.take(&shop.queue, 3).await;
    home.sort_by_key(|delivery| delivery.message.body.clone());
    for (delivery, message) in home.iter().zip(&messages) {
        let mut named = message.body.clone().expect("a body").to_vec();
        named.truncate(8);
        assert_eq!(delivery.routing_key, odd(), "{named:?}");
        // Read through the same bytes: what nests deeper than is taken apart is kept as bytes on both sides.
        let (found, sent) = (plain(delivery), fresh(message));
        assert_eq!(found.properties, sent.properties);
        assert_eq!(found.headers.iter().len(), sent.headers.iter().len());
        assert_eq!(encoded(&found.headers), encoded(&sent.headers));
    }
}

fn encoded(headers: &Headers) -> Vec<u8> {
    let mut out = Vec::new();
    dead_letter_office::amqp::codec::encode_table(&mut out, headers).expect("encodes");
    out
}

#[tokio::test]
async fn each_target_is_where_it_says() {
    let shop = Shop::open().await;
    let other = shop.rabbit.queue(QueueType::Classic).await;
    let audit = shop.rabbit.queue(QueueType::Classic).await;
    let exchange = shop.rabbit.exchange(ExchangeKind::Direct).await;
    shop.rabbit.bind(&audit, &exchange, "key").await;
    let letters = shop.letters(&shop.exchange, CREATED, vec![message("order")]).await;
    let letter = letters[0];
    let witness = shop.rabbit.queue(QueueType::Classic).await;
    shop.rabbit.bind(&witness, &shop.exchange, "#").await;

    let named = Target::At(Place::Exchange { exchange: exchange.as_str().into(), routing_key: "key".into() });
    let targets = [
        (Target::Queue, &shop.queue, "", shop.queue.as_str()),
        (Target::queue(other.as_str()), &other, "", other.as_str()),
        (named, &audit, exchange.as_str(), "key"),
        (Target::Original, &shop.queue, shop.exchange.as_str(), CREATED),
    ];
    for (target, queue, exchange, key) in targets {
        let replay = shop.send(letter, &target).await;
        assert_eq!((replay.sent_exchange.as_deref(), replay.sent_routing_key.as_deref()), (Some(exchange), Some(key)));
        let home = shop.rabbit.take(queue, 1).await;
        assert_eq!((home[0].exchange.as_str(), home[0].routing_key.as_str()), (Some(exchange), Some(key)));
        assert_eq!(home[0].message.headers.get("dlo-letter-id"), Some(&text(&letter.to_string())));
        assert_eq!(home[0].message.headers.get("dlo-replay-id"), Some(&text(&replay.token.to_string())));
        for other in [&shop.queue, &other, &audit] {
            assert_eq!(shop.rabbit.ready(other).await, 0);
        }
    }
    assert_eq!(shop.rabbit.ready(&witness).await, 1, "only the replay to the original exchange fans out");
}

#[tokio::test]
async fn what_was_published_to_a_queue_goes_back_to_that_queue_and_to_no_carbon_copies() {
    let shop = Shop::open().await;
    let (carbon, blind) = (shop.rabbit.queue(QueueType::Classic).await, shop.rabbit.queue(QueueType::Classic).await);
    let mut order = message("order");
    order.headers.push("CC", Value::Array(vec![text(&carbon)]));
    order.headers.push("BCC", Value::Array(vec![text(&blind)]));
    let letters = shop.letters("", &shop.queue, vec![order]).await;
    let copies = [shop.rabbit.ready(&carbon).await, shop.rabbit.ready(&blind).await];

    let replay = shop.send(letters[0], &Target::Original).await;

    assert_eq!((replay.sent_exchange.as_deref(), replay.sent_routing_key.as_deref()), (Some(""), Some(&*shop.queue)));
    let home = shop.rabbit.take(&shop.queue, 1).await;
    assert!(!home[0].message.headers.contains("CC") && !home[0].message.headers.contains("BCC"));
    assert_eq!(copies, [shop.rabbit.ready(&carbon).await, shop.rabbit.ready(&blind).await]);
}

#[tokio::test]
async fn after_three_hops_a_letter_goes_to_where_it_was_first_published() {
    let shop = Shop::open().await;
    let second = shop.consumer([("x-message-ttl", AMQPValue::LongInt(1))]).await;
    let hop = shop.rabbit.exchange(ExchangeKind::Fanout).await;
    shop.rabbit.bind(&second, &hop, "").await;
    let arguments = [
        ("x-dead-letter-exchange", string(&hop)),
        ("x-dead-letter-routing-key", string("renamed")),
        ("x-message-ttl", AMQPValue::LongInt(1)),
    ];
    let first = shop.rabbit.queue_with(QueueType::Classic, arguments).await;
    let exchange = shop.rabbit.exchange(ExchangeKind::Topic).await;
    shop.rabbit.bind(&first, &exchange, "eu.#").await;
    let witness = shop.rabbit.queue(QueueType::Classic).await;
    shop.rabbit.bind(&witness, &exchange, "#").await;

    let office = shop.capture();
    shop.rabbit.publish(&exchange, "eu.created", &[message("order")]).await;
    shop.captured(office, 1).await;
    let replay = shop.send(shop.ids().await[0], &Target::Original).await;

    let sent = (replay.sent_exchange.as_deref(), replay.sent_routing_key.as_deref());
    assert_eq!(sent, (Some(&*exchange), Some("eu.created")));
    assert_eq!(shop.rabbit.take(&witness, 2).await.len(), 2);
}

/// RR04, RR05: an x-death that is sent along makes RabbitMQ take the message for one that goes round in circles.
async fn dies_and_comes_back_each_time(rabbit: Rabbit) {
    let shop = Shop::open_at(rabbit).await;
    let waiting = shop.consumer([("x-message-ttl", AMQPValue::LongInt(1))]).await;
    let exchange = shop.rabbit.exchange(ExchangeKind::Topic).await;
    shop.rabbit.bind(&waiting, &exchange, "#").await;
    let office = shop.capture();
    let clerk = shop.rules().start();
    shop.rabbit.publish(&exchange, CREATED, &[message("order")]).await;
    shop.wait_for_letters(1).await;
    let first = shop.ids().await[0];
    for round in 1..=3 {
        shop.request(first, &Target::Original).await;
        shop.wait_for_letters(1 + round).await;
        shop.wait_for_status(first, "FAILED").await;
    }
    clerk.stop().await;
    office.stop().await;
    let deaths: Vec<i64> =
        sqlx::query_scalar("SELECT (headers -> 'x-death' -> 0 ->> 'count')::bigint FROM dead_letter_queue ORDER BY id")
            .fetch_all(&shop.database.pool)
            .await
            .expect("counts");
    assert_eq!(deaths, [1, 1, 1, 1], "a fresh message each time");
    assert_eq!(shop.database.scalar::<i32>("SELECT max(retry_count) FROM dead_letter_queue").await, 3);
}

#[tokio::test]
async fn a_letter_that_expires_again_and_again_comes_back_each_time() {
    dies_and_comes_back_each_time(Rabbit::connect().await).await;
}

#[tokio::test]
async fn a_letter_that_expires_again_and_again_comes_back_each_time_on_rabbitmq_4() {
    dies_and_comes_back_each_time(Rabbit::at(services::rabbitmq4()).await).await;
}

/// RR06.
#[tokio::test]
async fn headers_do_not_grow_with_replays() {
    let shop = Shop::open().await;
    let mut queues = Vec::new();
    for _ in 0..5 {
        queues.push(shop.rabbit.queue(QueueType::Classic).await);
    }
    let mut order = message("order");
    order.headers.push("tenant", text("eu-1"));
    let letters = shop.letters(&shop.exchange, CREATED, vec![order]).await;
    let clerk = shop.rules().start();
    let mut sizes = Vec::new();
    for round in 0..50 {
        let queue = &queues[round % queues.len()];
        let replay = shop.request(letters[0], &Target::queue(queue.as_str())).await;
        let home = shop.rabbit.take(queue, 1).await;
        sizes.push(encoded(&home[0].message.headers).len());
        assert_eq!(home[0].message.headers.iter().len(), 3, "tenant, letter, replay");
        shop.ended(&replay).await;
    }
    clerk.stop().await;
    sizes.dedup();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}
