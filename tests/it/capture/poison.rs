//! Messages that client libraries stumble over, among good ones.

use dead_letter_office::{
    message::{AmqpProperties, DEPTH_MAX, Headers, RawMessage, Text, Value},
    source::rabbitmq::topology::QueueType,
};
use lapin::ExchangeKind;

use crate::support::{
    bench::Bench,
    database::Tally,
    letters::Letter,
    messages::{bodies, headers, message, numbered, without_counts},
    rabbit::string,
    unique,
};

/// No UTF-8, with a NUL in it.
const BAD: &[u8] = b"\xde\xad\xbe\xef\xff\xfe\x00\xc3(";

fn bad() -> Text {
    Text::from(BAD)
}

/// The bad one among a hundred good ones, sent through an exchange that takes any routing key.
async fn among_good_ones(key: Text, poison: RawMessage) -> (Bench, Letter) {
    let bench = Bench::new().await;
    let exchange = bench.rabbit.exchange(ExchangeKind::Fanout).await;
    bench.rabbit.bind(&bench.queue, &exchange, "").await;
    let good = numbered(0, 100);
    bench.rabbit.publish_to(&bench.queue, &good[..50]).await;
    bench.rabbit.publish_raw(&exchange, key, std::slice::from_ref(&poison)).await;
    bench.rabbit.publish_to(&bench.queue, &good[50..]).await;

    let letters = bench.capture(101).await;

    assert_eq!(bench.database.failed().await, Tally::of(bodies(&good).chain(poison.body.as_deref())));
    only_one_session(&bench).await;
    let letter = letters.into_iter().find(|letter| letter.body.as_deref() == poison.body.as_deref());
    let letter = letter.expect("stored");
    let again = letter.message();
    assert_eq!(again.properties, poison.properties);
    assert_eq!(without_counts(&again.headers), poison.headers);
    (bench, letter)
}

/// Nothing broke over it.
async fn only_one_session(bench: &Bench) {
    let sessions: i64 = bench.database.scalar("SELECT count(*) FROM dlo_capture_sessions").await;
    assert_eq!(sessions, 1);
}

fn with(properties: AmqpProperties) -> RawMessage {
    RawMessage::amqp(properties, Headers::new(), "poison")
}

#[tokio::test]
async fn a_correlation_id_of_raw_bytes_is_stored_and_its_neighbours_are_fine() {
    let id = Text::from(&[0xde, 0xad, 0xbe, 0xef, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10][..]);
    let properties = AmqpProperties { correlation_id: Some(id), ..AmqpProperties::default() };

    let (_bench, letter) = among_good_ones(Text::default(), with(properties)).await;

    assert_eq!(letter.correlation_id.as_deref(), Some("deadbeef-fffe-0102-0304-05060708090a"));
}

#[tokio::test]
async fn raw_bytes_in_any_property_and_header_are_stored_as_they_were() {
    let properties = AmqpProperties {
        content_type: Some(bad()),
        content_encoding: Some(bad()),
        correlation_id: Some(bad()),
        reply_to: Some(bad()),
        message_id: Some(bad()),
        kind: Some(bad()),
        app_id: Some(bad()),
        ..AmqpProperties::default()
    };
    let mut table = headers([("value", Value::Str(bad()))]);
    table.push(bad(), Value::Str(bad()));

    among_good_ones(Text::default(), RawMessage::amqp(properties, table, "poison")).await;
}

#[tokio::test]
async fn a_routing_key_of_raw_bytes_is_left_out_and_noted() {
    let (_bench, letter) = among_good_ones(bad(), with(AmqpProperties::default())).await;

    assert_eq!(letter.captured_routing_key, None);
    assert_eq!(letter.notes.expect("notes")["not_text"], serde_json::json!(["captured_routing_key"]));
}

#[tokio::test]
async fn header_tables_of_any_depth_are_stored() {
    for levels in [DEPTH_MAX, DEPTH_MAX + 1, 5_000, 20_000] {
        let mut deep = Value::Bool(true);
        // From the inside out, as bytes: nothing here walks 20,000 levels on the stack.
        let mut bytes = vec![b't', 1];
        for level in 0..levels {
            if level < DEPTH_MAX {
                deep = Value::Array(vec![deep]);
            }
            let mut outer = vec![b'A'];
            outer.extend_from_slice(&u32::try_from(bytes.len()).expect("small").to_be_bytes());
            outer.extend_from_slice(&bytes);
            bytes = outer;
        }
        let value = if levels <= DEPTH_MAX { deep } else { Value::Opaque(bytes) };
        let bench = Bench::new().await;
        let poison = RawMessage::amqp(AmqpProperties::default(), headers([("deep", value)]), "poison");
        bench.rabbit.publish_raw("", bench.queue.as_str().into(), &[message("a"), poison, message("b")]).await;

        let letters = bench.capture(3).await;

        let letter = letters.iter().find(|letter| letter.body.as_deref() == Some(b"poison")).expect("stored");
        assert!(letter.message().headers.contains("deep"), "{levels} levels");
        only_one_session(&bench).await;
    }
}

#[tokio::test]
async fn headers_that_have_grown_beyond_a_frame_are_stored() {
    // Given: queues with long names, and a message whose headers just fit before it died there.
    let bench = Bench::new().await;
    let live = format!("{}-{}", unique("live"), "l".repeat(200));
    let dead = format!("{}-{}", unique("dead"), "d".repeat(190));
    let none: [(&str, lapin::types::AMQPValue); 0] = [];
    bench.rabbit.declare(&dead, QueueType::Classic, none).await;
    let to_dead = [("x-dead-letter-exchange", string("")), ("x-dead-letter-routing-key", string(&dead))];
    bench.rabbit.declare(&live, QueueType::Classic, to_dead).await;
    let good = numbered(0, 100);
    bench.rabbit.publish_to(&dead, &good[..50]).await;
    let large = Value::Bytes(vec![b'x'; 130_700]);
    let poison = RawMessage::amqp(AmqpProperties::default(), headers([("large", large.clone())]), "poison");
    bench.rabbit.publish_to(&live, &[poison]).await;
    bench.rabbit.reject_one(&live).await;
    bench.rabbit.wait_for_ready(&dead, 51).await;
    bench.rabbit.publish_to(&dead, &good[50..]).await;

    let bench = Bench { queue: dead.clone(), ..bench };
    let letters = bench.capture(101).await;

    assert_eq!(bench.database.failed().await, Tally::of(bodies(&good).chain([&b"poison"[..]])));
    only_one_session(&bench).await;
    let letter = letters.iter().find(|letter| letter.body.as_deref() == Some(b"poison")).expect("stored");
    assert_eq!(letter.message().headers.get("large"), Some(&large));
    assert_eq!(letter.origin_queue.as_deref(), Some(live.as_str()));
    for queue in [live, dead] {
        bench.rabbit.management.delete_queue(&queue).await;
    }
}

#[tokio::test]
async fn many_bad_messages_in_a_row_are_all_stored() {
    let bench = Bench::new().await;
    let bad: Vec<_> = (0..450)
        .map(|n| {
            let properties = AmqpProperties { correlation_id: Some(bad()), ..AmqpProperties::default() };
            RawMessage::amqp(properties, Headers::new(), format!("{n}"))
        })
        .collect();
    bench.rabbit.publish_raw("", bench.queue.as_str().into(), &bad).await;

    bench.capture(450).await;

    assert_eq!(bench.database.failed().await, Tally::of(bodies(&bad)));
    only_one_session(&bench).await;
}
