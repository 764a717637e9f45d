//! Bodies and texts that PostgreSQL or JSON cannot hold. The bytes are exact in every case.

use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Text, Value};

use crate::support::{
    bench::Bench,
    letters::Letter,
    messages::{headers, message, random_text, sorted, text, without_counts},
};

/// `payload` is NULL for the first kind, and what PostgreSQL makes of the text for the second.
async fn payloads_of(bodies: &[&[u8]]) -> Vec<Letter> {
    let bench = Bench::new().await;
    let messages: Vec<_> = bodies.iter().map(|body| message(body.to_vec())).collect();
    let letters = bench.send_and_capture(&messages).await;
    assert!(letters.iter().map(|letter| letter.body.as_deref()).eq(bodies.iter().map(|body| Some(*body))));
    assert!(letters.iter().all(|letter| letter.status == "FAILED"));
    letters
}

#[tokio::test]
async fn bytes_that_are_no_text_are_stored_as_bytes() {
    let letters =
        payloads_of(&[b"\x41\x00\x42", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xc0\x80", b"\"\x00\"", b""]).await;

    assert!(letters.iter().all(|letter| letter.payload.is_none() && letter.notes.is_none()));
}

#[tokio::test]
async fn json_that_jsonb_refuses_is_stored_as_bytes() {
    let letters = payloads_of(&[
        br#"{"a": "\u0000"}"#,
        br#"{"\u0000": 1}"#,
        br#"[[[{"deep": ["\u0000"]}]]]"#,
        br#"{"lone": "\ud800"}"#,
        br#"{"swapped": "\udc00\ud800"}"#,
        b"\xef\xbb\xbf{\"bom\": 1}",
        br#"{"a": 1,}"#,
        br#"{"a": 1} {"b": 2}"#,
        b"NaN",
    ])
    .await;

    assert!(letters.iter().all(|letter| letter.payload.is_none()));
}

#[tokio::test]
async fn json_that_looks_dangerous_and_is_not_is_a_payload_as_well() {
    let bodies: [&[u8]; 6] = [
        br#"{"escaped": "\\u0000"}"#,
        "{\"emoji\": \"🦀e\u{301}\u{fffe}\u{2028}\"}".as_bytes(),
        br#"{"b": 1, "a": 2, "b": 3}"#,
        br#"{"big": 9007199254740993, "one": 1.0, "minus": -0, "exp": 1e400}"#,
        b"  [1, 2]\n",
        br#""a string""#,
    ];
    let letters = payloads_of(&bodies).await;

    assert_eq!(letters[0].payload.as_deref(), Some(r#"{"escaped": "\\u0000"}"#));
    assert_eq!(letters[1].payload.as_deref().map(str::as_bytes), Some(bodies[1]));
    assert_eq!(letters[2].payload.as_deref(), Some(r#"{"a": 2, "b": 3}"#));
    let numbers = letters[3].payload.as_deref().expect("jsonb takes 1e400");
    assert!(numbers.contains("9007199254740993") && numbers.contains("1.0"), "{numbers:.80}");
    assert_eq!(letters[4].payload.as_deref(), Some("[1, 2]"));
    assert_eq!(letters[5].payload.as_deref(), Some(r#""a string""#));
}

#[tokio::test]
async fn a_payload_that_is_too_much_for_postgresql_is_left_out_and_the_rest_is_kept() {
    let bench = Bench::new().await;
    let mut messages: Vec<_> = (0..20).map(|n| message(format!("{n}"))).collect();
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let beyond_numeric = b"{\"n\": 1e200000}".to_vec();
    let story = || headers([("tenant", text("eu-1"))]);
    messages.insert(7, RawMessage::amqp(AmqpProperties::default(), story(), deep.clone()));
    messages.insert(13, RawMessage::amqp(AmqpProperties::default(), story(), beyond_numeric.clone()));

    let letters = bench.send_and_capture(&messages).await;

    assert!(letters.iter().map(|letter| letter.body.as_deref()).eq(messages.iter().map(|m| m.body.as_deref())));
    for refused in [&letters[7], &letters[13]] {
        assert_eq!((&refused.payload, refused.note("stored_as")), (&None, Some("without payload")));
        assert!(refused.note("refused").is_some_and(|why| !why.is_empty()));
        assert_eq!(refused.headers()["tenant"], "eu-1");
        assert_eq!(without_counts(&refused.message().headers), story());
    }
    let whole = letters.iter().filter(|letter| letter.payload.is_some() && letter.notes.is_none()).count();
    assert_eq!(whole, 20, "neighbours are untouched");
}

#[tokio::test]
async fn an_array_of_ten_million_numbers_is_stored() {
    let bench = Bench::new().await;
    let body = format!("[{}7]", "7,".repeat(9_999_999));

    let letters = bench.send_and_capture(&[message(body.clone()), message("1")]).await;

    assert!(letters[0].body.as_deref() == Some(body.as_bytes()));
    assert_eq!(letters[1].payload.as_deref(), Some("1"));
}

#[tokio::test]
async fn texts_with_nul_are_readable_and_names_with_nul_are_left_out() {
    let bench = Bench::new().await;
    let table = headers([
        ("x-exception-message", text("before\0after")),
        ("x-original-exchange", text("shop\0")),
        ("x-original-routingKey", text("created")),
        ("big-endian", Value::Str(Text::from(vec![0, 0, 0, 3]))),
        ("na\0me", text("v\0")),
    ]);
    let properties =
        AmqpProperties { message_id: Some("m\0".into()), kind: Some("t\0".into()), ..AmqpProperties::default() };
    let sent = RawMessage::amqp(properties, table, "{}");
    bench.rabbit.publish_to(&bench.queue, std::slice::from_ref(&sent)).await;

    let letter = bench.capture(1).await.remove(0);

    assert_eq!(letter.error_message.as_deref(), Some("before\u{fffd}after"));
    assert_eq!((letter.origin_exchange.as_deref(), letter.origin_routing_key.as_deref()), (None, Some("created")));
    assert_eq!(letter.status, "FAILED");
    assert_eq!(letter.message().properties, sent.properties);
    assert_eq!(without_counts(&letter.message().headers), sorted(&sent.headers));
}

/// Long, incompressible texts: an index on any of these columns would refuse them.
#[tokio::test]
async fn long_random_texts_are_stored_and_found() {
    let bench = Bench::new().await;
    let messages: Vec<_> = [255, 3_000, 8_200, 60_000]
        .into_iter()
        .map(|length| {
            let short = random_text(255, length as u64);
            let properties = AmqpProperties {
                message_id: Some(short.as_str().into()),
                correlation_id: Some(short.as_str().into()),
                kind: Some(short.as_str().into()),
                app_id: Some(short.as_str().into()),
                ..AmqpProperties::default()
            };
            let long = || text(&random_text(length, 1));
            let table = headers([
                ("x-original-exchange", text("shop")),
                ("x-original-routingKey", text("created")),
                ("x-exception-message", long()),
                ("x-exception-stacktrace", long()),
            ]);
            RawMessage::amqp(properties, table, random_text(length, 2))
        })
        .collect();

    let letters = bench.send_and_capture(&messages).await;

    assert!(letters.iter().all(|letter| letter.status == "FAILED" && letter.note("refused").is_none()));
    let found: i64 = sqlx::query_scalar("SELECT count(*) FROM dead_letter_queue WHERE error_message = $1")
        .bind(random_text(60_000, 1))
        .fetch_one(&bench.database.pool)
        .await
        .expect("looked up");
    assert_eq!(found, 1);
}

#[tokio::test]
async fn an_odd_x_death_makes_a_letter_all_the_same() {
    let bench = Bench::new().await;
    let death = |queue: Option<&str>| {
        let mut table = Headers::new();
        table.push("reason", text("rejected"));
        table.push("count", Value::I64(1));
        if let Some(queue) = queue {
            table.push("queue", text(queue));
        }
        Value::Table(table)
    };
    let odd = [
        None,
        Some(text("oops")),
        Some(Value::Array(Vec::new())),
        Some(Value::Array(vec![Value::Array(vec![death(Some("q"))])])),
        Some(Value::Array(vec![death(None)])),
        Some(Value::Array((0..300).map(|n| death(Some(&format!("q{n}")))).collect())),
        Some(Value::I32(-1)),
    ];
    let messages: Vec<_> = odd
        .into_iter()
        .map(|value| {
            let table = value.map_or_else(Headers::new, |value| headers([("x-death", value)]));
            RawMessage::amqp(AmqpProperties::default(), table, "{}")
        })
        .collect();

    let letters = bench.send_and_capture(&messages).await;

    assert!(letters.iter().all(|letter| letter.status == "FAILED" && letter.note("refused").is_none()));
    assert_eq!(letters[0].dialect, None);
}
