use proptest::prelude::*;

use super::*;
use crate::message::{RawMessage, wire};

fn short() -> impl Strategy<Value = Text> {
    prop::collection::vec(any::<u8>(), 0..=SHORT_BYTES_MAX).prop_map(Text::from)
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
        // NaN is not equal to itself; its bits are a case of their own below.
        any::<f32>().prop_filter("comparable", |v| !v.is_nan()).prop_map(Value::F32),
        any::<f64>().prop_filter("comparable", |v| !v.is_nan()).prop_map(Value::F64),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Value::Decimal { scale, value }),
        prop::collection::vec(any::<u8>(), 0..400).prop_map(|b| Value::Str(Text::from(b))),
        prop::collection::vec(any::<u8>(), 0..400).prop_map(Value::Bytes),
        any::<u64>().prop_map(Value::Timestamp),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((short(), inner), 0..6).prop_map(|h| Value::Table(h.into_iter().collect())),
        ]
    })
}

fn headers() -> impl Strategy<Value = Headers> {
    prop::collection::vec((short(), value()), 0..8).prop_map(|h| h.into_iter().collect())
}

fn properties() -> impl Strategy<Value = AmqpProperties> {
    let texts = prop::array::uniform10(prop::option::of(short()));
    (texts, any::<Option<u8>>(), any::<Option<u8>>(), any::<Option<u64>>()).prop_map(|(texts, mode, priority, time)| {
        let [
            content_type,
            content_encoding,
            correlation_id,
            reply_to,
            expiration,
            message_id,
            kind,
            user,
            app,
            cluster,
        ] = texts;
        AmqpProperties {
            content_type,
            content_encoding,
            delivery_mode: mode,
            priority,
            correlation_id,
            reply_to,
            expiration,
            message_id,
            timestamp: time,
            kind,
            user_id: user,
            app_id: app,
            cluster_id: cluster,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(properties in properties(), headers in headers()) {
        let mut bytes = Vec::new();
        encode_properties(&mut bytes, &properties, &headers).expect("in bounds");
        prop_assert_eq!(decode_properties(&bytes), (properties, headers));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = decode_properties(&bytes);
        let _ = decode_table(&bytes);
    }

    /// What the reader keeps, the writer can write, and it reads as the same again.
    #[test]
    fn any_entries_survive_another_round(entries in likely_entries()) {
        let headers = decode_table(&entries);
        let mut bytes = Vec::new();
        encode_table(&mut bytes, &headers).expect("what was read fits");
        let mut again = Vec::new();
        encode_table(&mut again, &decode_table(&bytes[4..])).expect("what was read fits");
        prop_assert!(again == bytes || has_empty_name(&headers));
    }
}

/// Bytes that get further than noise: small lengths and known letters are frequent.
fn likely_entries() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0u8..4, 3 => prop::sample::select(b"tbBsuIilLfdDSATFVx".to_vec()), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..200)
}

fn has_empty_name(headers: &Headers) -> bool {
    headers.iter().any(|(name, value)| {
        name.is_empty()
            || match value {
                Value::Table(table) => has_empty_name(table),
                Value::Array(values) => values.iter().any(|v| v.as_table().is_some_and(has_empty_name)),
                _ => false,
            }
    })
}

fn entry(name: &str, value: &[u8]) -> Vec<u8> {
    [&[name.len() as u8][..], name.as_bytes(), value].concat()
}

#[test]
fn an_unknown_letter_keeps_the_rest_of_its_own_table_only() {
    let inner = [entry("a", b"V"), entry("odd", b"Z\x01\x02"), entry("lost", b"t\x01")].concat();
    let mut bytes = entry("table", &[b"F\x00\x00\x00", &[inner.len() as u8][..], &inner].concat());
    bytes.extend(entry("after", b"B\x07"));
    let headers = decode_table(&bytes);
    let table = headers.get("table").and_then(Value::as_table).expect("a table");
    assert_eq!(table.get("a"), Some(&Value::Void));
    assert_eq!(table.get("odd"), Some(&Value::Opaque(b"Z\x01\x02\x04lostt\x01".to_vec())));
    assert_eq!(headers.get("after"), Some(&Value::U8(7)));

    let mut again = Vec::new();
    encode_table(&mut again, &headers).expect("fits");
    assert_eq!(again[4..], bytes);
}

#[test]
fn the_two_letters_of_a_long_integer_read_the_same() {
    let headers =
        decode_table(&[entry("l", b"l\xff\xff\xff\xff\xff\xff\xff\xfe"), entry("L", b"L\0\0\0\0\0\0\0\x01")].concat());
    assert_eq!(headers.get("l"), Some(&Value::I64(-2)));
    assert_eq!(headers.get("L"), Some(&Value::I64(1)));
}

#[test]
fn a_table_that_breaks_off_keeps_what_came_before() {
    let mut bytes = entry("good", b"I\0\0\0\x05");
    bytes.extend(entry("cut", b"S\0\0\x01\0abc"));
    let headers = decode_table(&bytes);
    assert_eq!(headers.get("good"), Some(&Value::I32(5)));
    assert_eq!(headers.get("cut"), Some(&Value::Opaque(b"S\0\0\x01\0abc".to_vec())));

    let headers = decode_table(&[entry("good", b"V"), b"\x09name".to_vec()].concat());
    assert_eq!(headers.get(""), Some(&Value::Opaque(b"\x09name".to_vec())));
}

#[test]
fn a_property_list_that_breaks_off_keeps_what_came_before() {
    let flags = (CONTENT_TYPE | MESSAGE_ID).to_be_bytes();
    let (properties, headers) = decode_properties(&[&flags[..], b"\x03abc", b"\x09no"].concat());
    assert_eq!(properties.content_type, Some("abc".into()));
    assert_eq!(properties.message_id, None);
    assert_eq!(headers.get(""), Some(&Value::Opaque(b"\x09no".to_vec())));
}

#[test]
fn nesting_below_the_limit_is_kept_whole_and_written_back() {
    let mut nested = b"V".to_vec();
    for _ in 0..100_000 {
        // Built inside out, from the front of a reversed buffer, so that it takes linear time.
        let length = nested.len() as u32;
        nested.extend(length.to_be_bytes().iter().rev());
        nested.push(b'A');
    }
    nested.reverse();
    let bytes = entry("deep", &nested);
    let headers = decode_table(&bytes);

    let mut value = headers.get("deep").expect("kept");
    let mut depth = 0;
    while let Value::Array(values) = value {
        value = &values[0];
        depth += 1;
    }
    assert_eq!(depth, DEPTH_MAX);
    assert!(matches!(value, Value::Opaque(encoded) if encoded[0] == b'A'));

    let mut again = Vec::new();
    encode_table(&mut again, &headers).expect("fits");
    assert_eq!(again[4..], bytes);

    // The database's form has the same limit.
    let message = RawMessage { body: None, ..RawMessage::amqp(AmqpProperties::default(), headers, "") };
    let mut stored = Vec::new();
    wire::encode(&mut stored, &message, None);
    assert_eq!(wire::decode(&stored, None), Ok(message));
}

#[test]
fn nan_keeps_its_bits() {
    let signalling = [entry("f", b"f\x7f\x80\0\x01"), entry("d", b"d\xff\xf0\0\0\0\0\0\x01")].concat();
    let mut again = Vec::new();
    encode_table(&mut again, &decode_table(&signalling)).expect("fits");
    assert_eq!(again[4..], signalling);
}

#[test]
fn a_name_longer_than_a_short_string_is_refused_by_name() {
    let mut out = b"before".to_vec();
    let headers: Headers = [("x".repeat(256).into(), Value::Void)].into_iter().collect();
    let error = encode_table(&mut out, &headers).expect_err("too long");
    assert!(error.to_string().starts_with("header name \"xxxx"), "{error}");
    assert!(error.to_string().contains("256"), "{error}");
    assert_eq!(out, b"before", "nothing half written");

    let properties = AmqpProperties { kind: Some("x".repeat(300).into()), ..Default::default() };
    let error = encode_properties(&mut out, &properties, &Headers::new()).expect_err("too long");
    assert_eq!(error, EncodeError::Property { name: "type", length: 300 });
    assert_eq!(out, b"before");
}
