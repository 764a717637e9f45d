//! Field tables through real brokers.

use dead_letter_office::amqp::convert;
use dead_letter_office::amqp::raw::RawError;
use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Text, Value};

use super::broker::{Broker, WITHIN};

/// Every type with its least and its greatest value.
fn extremes() -> Vec<(&'static str, Value)> {
    vec![
        ("void", Value::Void),
        ("t0", Value::Bool(false)),
        ("t1", Value::Bool(true)),
        ("b0", Value::I8(i8::MIN)),
        ("b1", Value::I8(i8::MAX)),
        ("B0", Value::U8(0)),
        ("B1", Value::U8(u8::MAX)),
        ("s0", Value::I16(i16::MIN)),
        ("s1", Value::I16(i16::MAX)),
        ("u0", Value::U16(0)),
        ("u1", Value::U16(u16::MAX)),
        ("I0", Value::I32(i32::MIN)),
        ("I1", Value::I32(i32::MAX)),
        ("i0", Value::U32(0)),
        ("i1", Value::U32(u32::MAX)),
        ("l0", Value::I64(i64::MIN)),
        ("l1", Value::I64(i64::MAX)),
        ("f0", Value::F32(f32::MIN)),
        ("f1", Value::F32(f32::MAX)),
        ("f-0", Value::F32(-0.0)),
        ("d0", Value::F64(f64::MIN)),
        ("d1", Value::F64(f64::MAX)),
        ("dmin", Value::F64(f64::MIN_POSITIVE)),
        ("D0", Value::Decimal { scale: 0, value: 0 }),
        ("D1", Value::Decimal { scale: u8::MAX, value: u32::MAX }),
        ("S0", Value::Str(Text::default())),
        ("S1", Value::Str("x".repeat(256).into())),
        ("x0", Value::Bytes(vec![])),
        ("x1", Value::Bytes((0..=255).collect())),
        ("T0", Value::Timestamp(0)),
        ("T1", Value::Timestamp(u64::MAX)),
        ("A0", Value::Array(vec![])),
        ("F0", Value::Table(Headers::new())),
    ]
}

fn table(entries: Vec<(&str, Value)>) -> Headers {
    entries.into_iter().map(|(name, value)| (Text::from(name), value)).collect()
}

fn with(headers: Headers) -> RawMessage {
    RawMessage::amqp(AmqpProperties::default(), headers, "{}")
}

async fn through(broker: &Broker, headers: Headers) -> Result<Headers, RawError> {
    let queue = broker.queue("q").await;
    let client = broker.raw().await;
    client.publish(&Text::default(), &queue.as_str().into(), &with(headers), WITHIN).await?;
    let delivery = client.get(&queue, WITHIN).await?.expect("a message");
    client.ack(delivery.tag, WITHIN).await?;
    Ok(delivery.message.headers)
}

/// RabbitMQ 4 sorts the header table, though no table in it; RabbitMQ 3 leaves it alone.
pub(super) fn assert_same_headers(broker: &Broker, received: &Headers, sent: &Headers) {
    if broker.major < 4 {
        assert!(received == sent, "{received:?}\n{sent:?}");
    }
    assert_same_but_for_order(received, sent);
}

fn assert_same_but_for_order(received: &Headers, sent: &Headers) {
    let by_name = |headers: &Headers| {
        let mut entries: Vec<_> = headers.clone().into_iter().collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries
    };
    assert!(by_name(received) == by_name(sent), "{received:?}\n{sent:?}");
}

fn three_levels() -> Headers {
    let mut headers = table(extremes());
    let array: Vec<Value> = extremes().into_iter().map(|(_, value)| value).collect();
    let second = table(vec![("table", Value::Table(table(extremes()))), ("array", Value::Array(array))]);
    headers.push("second", Value::Table(second));
    headers
}

/// Straight through, through a dead-letter exchange, where the broker takes headers apart and writes them anew, and
/// by lapin.
pub(super) async fn letters(broker: &Broker) {
    let headers = three_levels();
    assert_same_headers(broker, &through(broker, headers.clone()).await.expect("accepted"), &headers);

    let (live, dead) = broker.dead_letter_queues().await;
    broker.kill(&live, &dead, &with(headers.clone())).await;
    let client = broker.raw().await;
    let mut died = client.get(&dead, WITHIN).await.expect("gets").expect("a message").message.headers;
    assert!(died.contains("x-death"));
    died.retain(|name, _| !name.as_bytes().starts_with(b"x-"));
    // Every broker sorts the headers of what it dead-letters.
    assert_same_but_for_order(&died, &headers);

    let queue = broker.queue("q").await;
    broker.publish(&queue, &with(headers.clone())).await;
    let connection = broker.lapin().await;
    let channel = connection.create_channel().await.expect("a channel");
    let got = channel.basic_get(queue.as_str().into(), Default::default()).await.expect("gets").expect("a message");
    let (_, by_lapin) = convert::from_lapin(&got.delivery.properties);
    assert_eq!(sorted(&Value::Table(by_lapin)), sorted(&Value::Table(headers)));
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        Value::Table(headers) => {
            let mut entries: Vec<_> = headers.iter().map(|(n, v)| (n.clone(), sorted(v))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Table(entries.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// What brokers make of tables that are not as tables should be. Nothing the broker refuses can reach a queue by
/// AMQP 0-9-1.
pub(super) async fn odd_tables(broker: &Broker) {
    for (entries, expected) in [
        // Written anew by the broker.
        (&b"\x01LL\0\0\0\0\0\0\0\x07"[..], Some(table(vec![("L", Value::I64(7))]))),
        (b"\x01tt\x02", Some(table(vec![("t", Value::Bool(true))]))),
        // Inner tables may repeat names.
        (b"\x01at\x01\x01at\0", Some(table(vec![("a", Value::Bool(true)), ("a", Value::Bool(false))]))),
        // Not a number, infinity: Erlang has no floats for them.
        (b"\x01ff\x7f\xc0\0\x01", None),
        (b"\x01dd\x7f\xf8\0\0\0\0\0\x01", None),
        (b"\x01dd\x7f\xf0\0\0\0\0\0\0", None),
        // A letter of the specification that RabbitMQ does not know, one nobody knows, and a value that breaks off.
        (b"\x01UU\0\x07", None),
        (b"\x01zZ\x01", None),
        (b"\x01aI\0\0", None),
    ] {
        let opaque = Value::Opaque([b"F", &(entries.len() as u32).to_be_bytes()[..], entries].concat());
        let result = through(broker, table(vec![("odd", opaque)])).await;
        match expected {
            Some(expected) => assert_eq!(result.expect("accepted"), table(vec![("odd", Value::Table(expected))])),
            None => assert!(
                matches!(&result, Err(RawError::ConnectionClosed { code: 541, .. })),
                "{}: {result:?}",
                entries.escape_ascii()
            ),
        }
    }
    // In the header table itself RabbitMQ 4 keeps the first of a name.
    let twice = table(vec![("a", Value::I32(1)), ("a", Value::I32(2))]);
    let kept = if broker.major < 4 { twice.clone() } else { table(vec![("a", Value::I32(1))]) };
    assert_eq!(through(broker, twice).await.expect("accepted"), kept);
}
