//! Field tables through real brokers.

use dead_letter_office::amqp::raw::RawError;
use dead_letter_office::amqp::{codec, convert};
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
    let queue = broker.queue("").await;
    let client = broker.raw().await;
    client.publish(&Text::default(), &queue.as_str().into(), &with(headers), WITHIN).await?;
    let delivery = client.get(&queue, WITHIN).await?.expect("a message");
    client.ack(delivery.tag, WITHIN).await?;
    Ok(delivery.message.headers)
}

fn bytes_of(headers: &Headers) -> Vec<u8> {
    let mut out = Vec::new();
    codec::encode_table(&mut out, headers).expect("fits");
    out
}

/// Three levels of everything, both straight through and through a dead-letter exchange, which decodes and encodes.
pub(super) async fn letters(broker: &Broker) {
    let mut headers = table(extremes());
    let array: Vec<Value> = extremes().into_iter().map(|(_, value)| value).collect();
    let second = table(vec![("table", Value::Table(table(extremes()))), ("array", Value::Array(array))]);
    headers.push("second", Value::Table(second));
    assert_eq!(through(broker, headers.clone()).await.expect("accepted"), headers);

    // By lapin, which sorts.
    let queue = broker.queue("").await;
    broker.publish(&queue, &with(headers.clone())).await;
    let connection = broker.lapin().await;
    let channel = connection.create_channel().await.expect("a channel");
    let got = channel.basic_get(queue.as_str().into(), Default::default()).await.expect("gets").expect("a message");
    let (_, by_lapin) = convert::from_lapin(&got.delivery.properties);
    assert_eq!(by_lapin.len(), headers.len());
    for (name, value) in headers.iter() {
        let found = by_lapin.get(name.as_str().expect("utf-8")).expect("there");
        assert_eq!(sorted(found), sorted(value), "{name:?}");
    }
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

pub(super) async fn odd_tables(broker: &Broker) {
    for (what, entries) in [
        ("nan f", b"\x01ff\x7f\xc0\0\x01".to_vec()),
        ("nan d", b"\x01dd\x7f\xf8\0\0\0\0\0\x01".to_vec()),
        ("inf d", b"\x01dd\x7f\xf0\0\0\0\0\0\0".to_vec()),
        ("L", b"\x01LL\0\0\0\0\0\0\0\x07".to_vec()),
        ("t 2", b"\x01tt\x02".to_vec()),
        ("U", b"\x01UU\0\x07".to_vec()),
        ("repeated", b"\x01at\x01\x01at\0".to_vec()),
        ("unknown", b"\x01zZ\x01".to_vec()),
        ("truncated", b"\x01aI\0\0".to_vec()),
    ] {
        let headers: Headers = [(Text::from("odd"), opaque_table(&entries))].into_iter().collect();
        let result = through(broker, headers).await;
        eprintln!("{what}: {:?}", result.map(|h| (bytes_of(&h)[9..].escape_ascii().to_string(), h)));
    }
}

fn opaque_table(entries: &[u8]) -> Value {
    Value::Opaque([b"F", &(entries.len() as u32).to_be_bytes()[..], entries].concat())
}
