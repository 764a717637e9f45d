//! Numbers as frameworks write them, and as others do under their names.

use super::*;
use crate::message::{Headers, KafkaProperties};

fn coordinates(headers: &Headers) -> Coordinates<'_> {
    let mut coordinates = Coordinates::default();
    for (name, value) in headers.iter() {
        assert!(coordinates.take(name.as_bytes(), value), "{name:?}");
    }
    coordinates
}

fn headers(list: &[(&str, &[u8])]) -> Headers {
    list.iter().map(|(name, value)| ((*name).into(), Value::Bytes(value.to_vec()))).collect()
}

fn origin(list: &[(&str, &[u8])]) -> (Origin, Notes) {
    let (headers, mut notes) = (headers(list), Notes::default());
    (coordinates(&headers).origin("h-", &mut notes), notes)
}

#[test]
fn numbers_are_told_by_their_content() {
    for (bytes, widths, expected) in [
        (&[0, 0, 0, 3][..], &[4][..], Some(3)),
        (b"3", &[4], Some(3)),
        (b" 3 ", &[4], Some(3)),
        (b"1042", &[4], Some(1042)),
        (b"12345678", &[8], Some(12_345_678)),
        (&[0, 0, 0, 0, 0, 0, 0x48, 0x0a], &[8], Some(18_442)),
        (&[0xff; 4], &[4], Some(-1)),
        (&[5], &[1, 4], Some(5)),
        (b"", &[4], None),
        (&[0, 0, 3], &[4], None),
        (&[0; 9], &[8], None),
        (b"three", &[4], None),
        (b"99999999999999999999", &[8], None),
    ] {
        assert_eq!(number(bytes, widths), expected, "{bytes:?}");
    }
}

#[test]
fn a_number_that_cannot_be_is_unknown_and_noted_under_its_name() {
    for odd in [&b""[..], &[0, 0, 3], &[0; 9], &[0xff; 4], b"-1", b"x", b"2147483648"] {
        let (origin, notes) = origin(&[("topic", b"orders"), ("partition", odd), ("offset", b"7")]);
        assert_eq!((origin.partition, origin.offset), (None, Some(7)), "{odd:?}");
        assert_eq!(notes.to_json(), r#"{"doubts":["h-partition is no number that it can be"]}"#, "{odd:?}");
    }
    let (origin, notes) = origin(&[("offset", &[0xff; 8]), ("timestamp", &i64::MAX.to_be_bytes())]);
    assert_eq!((origin.offset, origin.timestamp), (None, None));
    assert_eq!(notes.get("doubts").and_then(Json::as_array).map(Vec::len), Some(2));
}

#[test]
fn a_record_without_a_time_leaves_no_doubt() {
    let (origin, notes) = origin(&[("timestamp", &(-1_i64).to_be_bytes())]);
    assert_eq!(origin.timestamp, None);
    assert!(notes.is_empty());
}

#[test]
fn null_counts_as_absent() {
    let headers: Headers =
        [("topic".into(), Value::Void), ("topic".into(), Value::Bytes(b"orders".to_vec()))].into_iter().collect();
    let mut notes = Notes::default();
    let origin = coordinates(&headers).origin("h-", &mut notes);
    assert_eq!(origin.topic, Some("orders".into()));
    assert!(notes.is_empty());
}

#[test]
fn the_first_value_is_the_origin_and_the_last_is_noted_where_it_differs() {
    let list: &[(&str, &[u8])] = &[
        ("topic", b"orders"),
        ("partition", &[0, 0, 0, 3]),
        ("offset", &[0, 0, 0, 0, 0, 0, 0, 7]),
        ("topic", b"orders-retry-1"),
        ("partition", &[0, 0, 0, 3]),
        ("offset", b"junk"),
    ];
    let headers = headers(list);
    let (coordinates, mut notes) = (coordinates(&headers), Notes::default());
    let origin = coordinates.origin("h-", &mut notes);
    coordinates.note_last(&origin, &mut notes);

    assert_eq!((origin.topic.clone(), origin.partition, origin.offset), (Some("orders".into()), Some(3), Some(7)));
    assert_eq!(notes.to_json(), r#"{"last_origin":{"topic":"orders-retry-1","partition":3}}"#);

    let mut same = Notes::default();
    let once = &list[..3].iter().map(|(name, value)| ((*name).into(), Value::Bytes(value.to_vec()))).collect();
    self::coordinates(once).note_last(&origin, &mut same);
    assert!(same.is_empty());
}

#[test]
fn the_time_of_a_record_is_the_originals_or_the_failures() {
    let record =
        |timestamp| RawMessage::kafka(KafkaProperties { timestamp, leader_epoch: None }, None, Headers::new(), None);
    let day = DateTime::from_timestamp(86_400, 0);

    let created = record(Some(RecordTime::Created(86_400_000)));
    assert_eq!((written_at(&created), copied_time(&created)), (day, (day, None)));
    let appended = record(Some(RecordTime::Appended(86_400_000)));
    assert_eq!((written_at(&appended), copied_time(&appended)), (day, (None, day)));
    for odd in [None, Some(RecordTime::Created(-1)), Some(RecordTime::Appended(i64::MAX))] {
        assert_eq!((written_at(&record(odd)), copied_time(&record(odd))), (None, (None, None)));
    }
}

#[test]
fn the_class_comes_from_the_trace_else_from_the_cause_else_from_the_wrapper() {
    let (class, cause) = (Some(&b"a.Wrapper"[..]), Some(&b"a.Cause"[..]));
    let trace = Some(&b"a.Wrapper: x\n\tat a.B.c(B.java:1)\nCaused by: a.Root: y\n"[..]);
    let class_of = |exception: Exception<'_>| exception.failure(&mut Notes::default()).error_class;

    assert_eq!(class_of(Exception { class, cause, message: None, trace }).as_deref(), Some("a.Root"));
    let torn = Some(&b"..."[..]);
    assert_eq!(class_of(Exception { class, cause, message: None, trace: torn }).as_deref(), Some("a.Cause"));
    assert_eq!(class_of(Exception { class, ..Exception::default() }).as_deref(), Some("a.Wrapper"));
    assert_eq!(class_of(Exception::default()), None);
}
