//! Letters go home to Kafka.

use bytes::Bytes;
use dead_letter_office::message::{Headers, KafkaProperties, RawMessage, Value};
use rdkafka::{Message, consumer::Consumer, message::Headers as _};

use super::{NOTICED, Post};
use crate::support::{SOON, eventually, program::Program, services};

/// What failed at `topic`, partition and offset as Spring Kafka tells it.
fn failed_at(topic: &str, partition: i32, key: Option<&'static [u8]>, value: Option<&[u8]>) -> RawMessage {
    let headers: Headers = [
        ("tenant", Value::Bytes(b"eu-1".to_vec())),
        ("again", Value::Bytes(b"1".to_vec())),
        ("again", Value::Void),
        ("again", Value::Bytes(Vec::new())),
        ("kafka_dlt-original-topic", Value::Bytes(topic.as_bytes().to_vec())),
        ("kafka_dlt-original-partition", Value::Bytes(partition.to_be_bytes().to_vec())),
        ("kafka_dlt-original-offset", Value::Bytes(7_i64.to_be_bytes().to_vec())),
        ("kafka_dlt-exception-fqcn", Value::Bytes(b"java.lang.IllegalStateException".to_vec())),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value))
    .collect();
    let value = value.map(Bytes::copy_from_slice);
    RawMessage::kafka(KafkaProperties::default(), key.map(Bytes::from_static), headers, value)
}

impl Post {
    /// Captures these, and asks for the replay of all of them.
    async fn replay_all(&self, letters: &[RawMessage]) -> Program {
        self.send(letters).await;
        let program = self.start();
        self.stored(letters.len(), SOON * 2).await;
        let mut asking = std::process::Command::new(env!("CARGO_BIN_EXE_dlo"));
        asking.env_clear().env("DLO_DATABASE_URL", self.setup.database.as_str()).args(["replay", "--yes"]);
        asking.args(self.ids().await.iter().map(ToString::to_string));
        let asked = asking.output().expect("dlo runs");
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        program
    }

    async fn ids(&self) -> Vec<i64> {
        sqlx::query_scalar("SELECT id FROM dead_letter_queue ORDER BY captured_partition, captured_offset")
            .fetch_all(&self.database.pool)
            .await
            .expect("read")
    }

    /// State, verdict and error of every attempt, in the order in which they were asked for.
    async fn ended(&self, attempts: usize) -> Vec<(Option<String>, Option<String>)> {
        eventually(&format!("{attempts} attempts end"), SOON * 2, async || {
            let ended: Vec<(Option<String>, Option<String>)> = sqlx::query_as(
                "SELECT verdict, error FROM dlo_replays WHERE state IN ('DONE', 'IN_DOUBT') ORDER BY id",
            )
            .fetch_all(&self.database.pool)
            .await
            .ok()?;
            (ended.len() == attempts).then_some(ended)
        })
        .await
    }
}

/// What lies in a topic: partition, key, value, headers.
type Lying = (i32, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

async fn lying(post: &Post, topic: &str, count: usize) -> Vec<Lying> {
    let reader = post.kafka.reader();
    reader.subscribe(&[topic]).expect("subscribed");
    let mut found = Vec::new();
    eventually("the records come home", SOON, async || {
        while let Some(Ok(message)) = reader.poll(std::time::Duration::from_millis(20)) {
            let headers = message.headers().map(|headers| {
                headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect::<Vec<_>>()
            });
            found.push((
                message.partition(),
                message.key().map(<[u8]>::to_vec),
                message.payload().map(<[u8]>::to_vec),
                headers.unwrap_or_default(),
            ));
        }
        (found.len() >= count).then_some(())
    })
    .await;
    found
}

#[tokio::test]
async fn a_letter_goes_home_as_it_was_to_its_partition_with_its_key() {
    let post = Post::new(1).await;
    let home = post.kafka.topic_with(3, &[("max.message.bytes", "40000000")]).await;
    let large = crate::support::messages::random_bytes(20 << 20, 3);
    let sent = [
        failed_at(&home, 2, Some(b"k1"), Some(br#"{"order": 1}"#)),
        failed_at(&home, 2, Some(b""), Some(b"")),
        failed_at(&home, 2, Some(&[0, 255]), Some(b"\xff\0")),
        failed_at(&home, 2, Some(b"gone"), None),
        failed_at(&home, 2, None, Some(&large)),
        // There is no such partition: the key decides, as in Java.
        failed_at(&home, 9, Some(b"21"), Some(b"moved")),
    ];
    let _program = post.replay_all(&sent).await;
    let ended = post.ended(sent.len()).await;

    assert!(ended.iter().all(|(verdict, _)| verdict.as_deref() == Some("ROUTED")), "{ended:?}");
    let mut lying = lying(&post, &home, sent.len()).await;
    assert_eq!(lying.len(), sent.len());
    for sent in &sent {
        let at = lying.iter().position(|(_, key, value, _)| {
            (key.as_deref(), value.as_deref()) == (sent.key.as_deref(), sent.body.as_deref())
        });
        let (partition, _, value, mut headers) = lying.swap_remove(at.expect("it is there"));
        // murmur2("21") is -973932308.
        let expected = if value.as_deref() == Some(b"moved") { (-973_932_308 & 0x7fff_ffff) % 3 } else { 2 };
        assert_eq!(partition, expected);
        let ours = headers.split_off(4);
        assert_eq!(ours.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["dlo-letter-id", "dlo-replay-id"]);
        let kept = [("tenant", Some("eu-1")), ("again", Some("1")), ("again", None), ("again", Some(""))];
        let kept = kept.map(|(name, value)| (name.to_owned(), value.map(|value| value.as_bytes().to_vec())));
        assert_eq!(headers, kept);
    }
}

#[tokio::test]
async fn what_the_broker_does_not_take_is_refused_with_its_reason() {
    let post = Post::new(1).await;
    let small = post.kafka.topic_with(1, &[("max.message.bytes", "1000")]).await;
    let compacted = post.kafka.topic_with(1, &[("cleanup.policy", "compact")]).await;
    let sent = [
        failed_at("dlo-it-there-is-no-such-topic", 0, Some(b"k"), Some(b"{}")),
        failed_at(&small, 0, Some(b"k"), Some(&[b'x'; 5_000])),
        failed_at(&compacted, 0, None, Some(b"without a key")),
        failed_at(&compacted, 0, Some(b"k"), Some(b"with one")),
    ];

    let _program = post.replay_all(&sent).await;
    let ended = post.ended(sent.len()).await;

    let verdicts: Vec<_> = ended.iter().map(|(verdict, _)| verdict.as_deref().unwrap_or_default()).collect();
    assert_eq!(verdicts, ["REFUSED", "REFUSED", "REFUSED", "ROUTED"], "{ended:?}");
    for ((_, why), word) in ended.iter().zip(["exist", "too large", "record"]) {
        let why = why.as_deref().unwrap_or_default().to_lowercase();
        assert!(why.contains(word) || why.contains("unknown"), "{why}");
    }
    // Nothing is stuck: every letter waits for a person again.
    assert_eq!(post.database.statuses().await.get("REPLAYING"), None);
}

/// A broker takes a batch or refuses it whole.
#[tokio::test]
async fn one_that_is_too_large_takes_none_beside_it_along() {
    let post = Post::new(1).await;
    let home = post.kafka.topic_with(1, &[("max.message.bytes", "20000")]).await;
    let letter = |body: &[u8]| failed_at(&home, 0, Some(b"k"), Some(body));
    let mut sent: Vec<RawMessage> = (0..60).map(|n| letter(format!("{{\"order\": {n}}}").as_bytes())).collect();
    sent[30] = letter(&[b'x'; 30_000]);

    let _program = post.replay_all(&sent).await;
    let ended = post.ended(sent.len()).await;

    let of = |wanted: &str| ended.iter().filter(|(verdict, _)| verdict.as_deref() == Some(wanted)).count();
    assert_eq!((of("ROUTED"), of("REFUSED")), (59, 1), "{ended:?}");
    assert_eq!(lying(&post, &home, 59).await.len(), 59);
}

#[tokio::test]
async fn who_may_not_write_is_refused() {
    let mut post = Post::new(1).await;
    let home = post.kafka.topic(1).await;
    post.bootstrap = services::kafka_sasl();
    post.properties +=
        ", security.protocol: sasl_plaintext, sasl.mechanism: PLAIN, sasl.username: reader, sasl.password: reader";

    let _program = post.replay_all(&[failed_at(&home, 0, Some(b"k"), Some(b"{}"))]).await;
    let ended = post.ended(1).await;

    assert_eq!(ended[0].0.as_deref(), Some("REFUSED"));
    assert!(ended[0].1.as_deref().is_some_and(|why| why.to_lowercase().contains("authorization")), "{ended:?}");
}

#[tokio::test]
async fn a_replay_that_dies_again_is_a_return_of_the_first_letter() {
    let post = Post::new(1).await;
    let home = post.kafka.topic(1).await;
    let _program = post.replay_all(&[failed_at(&home, 0, Some(b"k"), Some(br#"{"order": 1}"#))]).await;
    let (_, _, value, headers) = lying(&post, &home, 1).await.remove(0);

    // Its consumer fails again: Spring copies what it got and adds its own.
    let mut again = failed_at(&home, 0, Some(b"k"), value.as_deref());
    for (name, value) in headers.into_iter().filter(|(name, _)| name.starts_with("dlo-")) {
        again.headers.push(name.as_str(), Value::Bytes(value.expect("a value")));
    }
    post.send(&[again]).await;

    post.stored(2, NOTICED).await;
    let (first, status, retries): (i64, String, i32) =
        sqlx::query_as("SELECT id, status, retry_count FROM dead_letter_queue WHERE replay_of IS NULL")
            .fetch_one(&post.database.pool)
            .await
            .expect("the first letter");
    assert_eq!((status.as_str(), retries), ("FAILED", 1));
    let returned: i64 = post.database.scalar("SELECT replay_of FROM dead_letter_queue WHERE status = 'REPEATED'").await;
    assert_eq!(returned, first);
    assert_eq!(post.ended(1).await[0].0.as_deref(), Some("DIED_AGAIN"));
}
