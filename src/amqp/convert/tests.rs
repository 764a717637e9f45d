use super::*;
use crate::amqp::codec;

/// A message with every type in it, three levels deep, names in order so that lapin's sorting does not show.
fn message() -> RawMessage {
    let table = |entries: Vec<(&str, Value)>| -> Headers { entries.into_iter().map(|(n, v)| (n.into(), v)).collect() };
    let flat = vec![
        ("a", Value::Void),
        ("b", Value::Bool(true)),
        ("c", Value::I8(i8::MIN)),
        ("d", Value::U8(u8::MAX)),
        ("e", Value::I16(i16::MIN)),
        ("f", Value::U16(u16::MAX)),
        ("g", Value::I32(i32::MIN)),
        ("h", Value::U32(u32::MAX)),
        ("i", Value::I64(i64::MIN)),
        ("j", Value::F32(f32::MIN)),
        ("k", Value::F64(f64::MAX)),
        ("l", Value::Decimal { scale: 255, value: u32::MAX }),
        ("m", Value::Str(Text::from(vec![0, 0xff, 0xc3]))),
        ("n", Value::Bytes(vec![0, 1, 0xff])),
        ("o", Value::Timestamp(u64::MAX)),
    ];
    let mut headers = table(flat.clone());
    let inner = Value::Array(vec![Value::Table(table(flat)), Value::Array(vec![])]);
    headers.push("p", Value::Table(table(vec![("inner", inner)])));
    let properties = AmqpProperties {
        content_type: Some("application/json".into()),
        content_encoding: Some("gzip".into()),
        delivery_mode: Some(2),
        priority: Some(9),
        correlation_id: Some("ä".into()),
        reply_to: Some("r".into()),
        expiration: Some("1".into()),
        message_id: Some("".into()),
        timestamp: Some(u64::MAX),
        kind: Some("k".into()),
        user_id: Some("guest".into()),
        app_id: Some("a".into()),
        cluster_id: Some("c".into()),
    };
    RawMessage::amqp(properties, headers, "body")
}

#[test]
fn a_message_lapin_can_hold_goes_there_and_back() {
    let message = message();
    let lapin = to_lapin(&message).expect("fits");
    let (properties, headers) = from_lapin(&lapin);
    assert_eq!(Some(&properties), message.properties.amqp());
    assert_eq!(headers, message.headers);
}

#[test]
fn what_lapin_cannot_hold_is_refused() {
    let with = |change: fn(&mut RawMessage)| {
        let mut message = message();
        change(&mut message);
        to_lapin(&message)
    };
    assert_eq!(with(|m| m.headers.push(vec![0xff], Value::Void)), None, "a name that is not UTF-8");
    assert_eq!(with(|m| m.headers.push("a", Value::Void)), None, "a name that repeats");
    assert_eq!(with(|m| m.headers.push("x".repeat(256), Value::Void)), None, "a name that is too long");
    assert_eq!(with(|m| m.headers.push("z", Value::Opaque(b"Z".to_vec()))), None, "an opaque value");
    let in_array = |m: &mut RawMessage| m.headers.push("z", Value::Array(vec![Value::Opaque(b"Z".to_vec())]));
    assert_eq!(with(in_array), None, "an opaque value below");
    let not_utf8 = |m: &mut RawMessage| m.properties.amqp_mut().expect("amqp").correlation_id = Some(vec![0xde].into());
    assert_eq!(with(not_utf8), None, "a property that is not UTF-8");
}

#[test]
fn deep_nesting_from_lapin_reads_as_the_codec_reads_it() {
    // As deep as a test thread's stack lets lapin drop it again.
    let mut value = AMQPValue::LongString("bottom".into());
    for level in 0..1_000 {
        value = if level % 2 == 0 {
            AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void, value, AMQPValue::Boolean(true)]))
        } else {
            let mut table = FieldTable::default();
            table.insert("down".into(), value);
            AMQPValue::FieldTable(table)
        };
    }
    let mut table = FieldTable::default();
    table.insert("deep".into(), value);
    let (_, headers) = from_lapin(&BasicProperties::default().with_headers(table));

    let mut bytes = Vec::new();
    codec::encode_table(&mut bytes, &headers).expect("fits");
    assert_eq!(codec::decode_table(&bytes[4..]), headers);
    assert_eq!(bytes.windows(6).filter(|w| w == b"bottom").count(), 1);
    let message = RawMessage::amqp(AmqpProperties::default(), headers, "");
    assert_eq!(to_lapin(&message), None);
}

#[test]
fn every_flat_type_is_encoded_alike_here_and_in_the_codec() {
    let message = message();
    let lapin = to_lapin(&message).expect("fits");
    let table = AMQPValue::FieldTable(lapin.headers().clone().expect("headers"));
    let mut bytes = vec![b'F'];
    codec::encode_table(&mut bytes, &message.headers).expect("fits");
    assert_eq!(deep::encode(&table), bytes);
}
