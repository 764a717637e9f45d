//! What is in a row, and that the record can be made from it again byte for byte.

use bytes::Bytes;
use dead_letter_office::{
    dialect::{Place, Publish},
    kafka::client::Cluster,
    message::{Headers, KafkaProperties, RawMessage, RecordTime, Value},
    replay::{Patience, Publisher, kafka::KafkaPublisher},
};
use rdkafka::producer::{FutureRecord, Producer};

use super::{NOTICED, Post, numbered};
use crate::support::{SOON, messages::random_bytes};

fn record(key: Option<&'static [u8]>, headers: Vec<(&str, Value)>, value: Option<Bytes>, millis: i64) -> RawMessage {
    let properties = KafkaProperties { timestamp: Some(RecordTime::Created(millis)), leader_epoch: Some(0) };
    let headers: Headers = headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
    RawMessage::kafka(properties, key.map(Bytes::from_static), headers, value)
}

#[tokio::test]
async fn every_form_of_a_record_is_in_its_row_and_comes_out_again() {
    let post =
        Post::with(crate::support::database::Database::fresh().await, 1, &[("max.message.bytes", "100000000")]).await;
    let now = crate::support::database::now().timestamp_millis();
    let many = |name: &str| -> Vec<(String, Value)> {
        (0..300).map(|n| (format!("{name}{n}"), Value::Bytes(vec![b'v'; n]))).collect()
    };
    let many: Vec<_> = many("h").into_iter().collect();
    let sent = vec![
        record(
            Some(b"key"),
            vec![
                ("b", Value::Bytes(b"2".to_vec())),
                ("a", Value::Bytes(b"first".to_vec())),
                ("a", Value::Void),
                ("a", Value::Bytes(Vec::new())),
                ("", Value::Bytes(vec![0, 255])),
            ],
            Some(Bytes::from_static(br#"{"order": 1}"#)),
            now,
        ),
        record(Some(b"gone"), Vec::new(), None, now - 60_000),
        record(None, Vec::new(), None, now),
        record(Some(b""), Vec::new(), Some(Bytes::new()), now + 1),
        record(Some(&[255, 0, 1]), Vec::new(), Some(Bytes::from_static(b"not JSON \0 \xff")), now),
        record(None, Vec::new(), Some(Bytes::from_static(br#""\u0000""#)), now),
        record(
            None,
            many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect(),
            Some(Bytes::from_static(b"{}")),
            now,
        ),
        record(None, Vec::new(), Some(random_bytes(64 << 20, 1).into()), now),
        record(None, Vec::new(), Some(Bytes::from_static(b"the last")), now),
    ];
    post.send(&sent).await;

    let mut program = post.start();
    post.stored(sent.len(), SOON * 3).await;
    program.stop(SOON).await;

    let mut letters = post.database.letters().await;
    letters.sort_by_key(|letter| letter.captured_offset);
    for (offset, (letter, sent)) in letters.iter().zip(&sent).enumerate() {
        let mut message = letter.message();
        message.key = letter.message_key.clone().map(Into::into);
        assert!(message == *sent, "record {offset}: {:?} {:?}", message.headers, message.properties);
        assert_eq!((letter.captured_topic.as_deref(), letter.captured_partition), (Some(post.topic.as_str()), Some(0)));
        assert_eq!(letter.captured_offset, i64::try_from(offset).ok());
        assert_eq!((letter.broker_kind.as_str(), letter.status.as_str()), ("kafka", "FAILED"));
    }
    let shown = letters[0].headers();
    assert_eq!(shown["a"], serde_json::json!(["first", null, ""]));
    assert_eq!(shown[""], serde_json::json!({"$b64": "AP8="}));
    assert_eq!((letters[1].payload_state.as_str(), letters[1].body.clone()), ("tombstone", None));
    // Without a key it deletes nothing: nobody knows what it is.
    assert_eq!((letters[2].payload_state.as_str(), letters[2].body.clone()), ("pointer", None));
    assert_eq!(letters[5].payload, None);
}

/// rdkafka neither sends nor reads such names; our own publisher does.
#[tokio::test]
async fn header_names_that_are_no_text_are_stored_as_they_were_and_stop_nobody() {
    let post = Post::new(1).await;
    let cluster = Cluster { bootstrap_servers: post.kafka.brokers.clone(), ..Cluster::default() };
    let publisher = KafkaPublisher::new(cluster, SOON);
    let now = crate::support::database::now().timestamp_millis();
    let mut odd = record(Some(b"k"), vec![("tenant", Value::Bytes(b"eu".to_vec()))], Some("{}".into()), now);
    for name in [&[0xff, 0xfe, b'A'][..], b"\xc3", b""] {
        odd.headers.push(name, Value::Bytes(b"x".to_vec()));
        odd.headers.push(name, Value::Void);
    }
    post.send(&numbered(0, 5)).await;
    let publish =
        Publish { place: Place::Topic { topic: post.topic.as_str().into(), partition: Some(0) }, message: odd.clone() };
    let until = tokio::time::Instant::now() + SOON;
    let patience = Patience { begin_by: until, until, last_call: tokio_util::sync::CancellationToken::new() };
    publisher.publish(&publish, &patience).await.expect("confirmed");
    post.send(&numbered(5, 5)).await;

    let _program = post.start();
    post.stored(11, SOON).await;

    let letters = post.database.letters().await;
    let letter = letters.iter().find(|letter| letter.captured_offset == Some(5)).expect("the sixth");
    let mut message = letter.message();
    message.key = letter.message_key.clone().map(Into::into);
    assert_eq!(message, odd);
}

#[tokio::test]
async fn every_compression_is_read() {
    let post = Post::new(1).await;
    let records = numbered(0, 400);
    for (codec, part) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().zip(records.chunks(80)) {
        let producer = post.kafka.producer(&[("compression.type", codec), ("linger.ms", "20")]);
        let sending: Vec<_> = part
            .iter()
            .map(|record| {
                let mut sent: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&post.topic);
                (sent.key, sent.payload) = (record.key.as_deref(), record.body.as_deref());
                producer.send_result(sent).unwrap_or_else(|(why, _)| panic!("{why}"))
            })
            .collect();
        for sent in sending {
            sent.await.expect("the producer lives").unwrap_or_else(|(why, _)| panic!("{codec}: {why}"));
        }
    }

    let _program = post.start();
    post.stored(400, SOON).await;

    post.is_exactly(&records).await;
}

#[tokio::test]
async fn an_aborted_transaction_is_not_captured_and_its_marks_are_no_lag() {
    let post = Post::new(1).await;
    let program = post.start();
    program.receiving().await;
    let producer = post.kafka.producer(&[("transactional.id", &post.group)]);
    let records = numbered(0, 60);
    producer.init_transactions(SOON).expect("a transactional producer");
    for (round, part) in records.chunks(20).enumerate() {
        producer.begin_transaction().expect("begun");
        for record in part {
            let mut sent: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&post.topic);
            (sent.key, sent.payload) = (record.key.as_deref(), record.body.as_deref());
            producer.send(sent, SOON).await.unwrap_or_else(|(why, _)| panic!("{why}"));
        }
        if round == 1 {
            producer.abort_transaction(SOON).expect("aborted");
        } else {
            producer.commit_transaction(SOON).expect("committed");
        }
    }

    post.stored(40, SOON).await;
    program.wait_for_metric("dlo_source_lag_messages", 0.0, NOTICED).await;

    let kept: Vec<_> = records[..20].iter().chain(&records[40..]).cloned().collect();
    post.is_exactly(&kept).await;
    // Three marks are no messages, and the position is past the last one.
    let position: i64 = post.database.scalar("SELECT position FROM dlo_positions").await;
    assert_eq!(position, 63);
}
