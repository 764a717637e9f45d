//! Kafka: a topic with one partition, positions in a database.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use dead_letter_office::{
    kafka::client::Cluster,
    message::{KafkaProperties, RawMessage, RecordTime, Value},
    metrics::{Metrics, SourceMetrics},
    source::{
        Claim, Delivery, PositionLedger, Source,
        kafka::{KafkaSource, Settings, Start, Topics},
        positions::{At, Known},
    },
    store::PgStore,
};

use super::{Harness, memory::info};
use crate::support::{SOON, database::Database, eventually, kafka, messages::random_bytes, unique};

/// Bytes: the source's own buffer is a third of it.
const SHARE: usize = 3 << 20;
const POLL_INTERVAL: Duration = Duration::from_secs(6);

pub(super) struct Kafka {
    kafka: kafka::Kafka,
    _database: Database,
    store: Arc<PgStore>,
    topic: String,
    group: String,
    metrics: SourceMetrics,
}

impl Kafka {
    pub(super) async fn new() -> Self {
        crate::support::log();
        let (kafka, database) = (kafka::Kafka::connect(), Database::fresh().await);
        let topic = kafka.topic(1).await;
        let metrics = Metrics::new().source("orders", "broker");
        Self { store: database.store(), kafka, _database: database, topic, group: unique("group"), metrics }
    }
}

fn kafka_message(
    key: Option<&'static [u8]>,
    entries: Vec<(&str, Value)>,
    value: Option<Bytes>,
    millis: i64,
) -> RawMessage {
    let properties = KafkaProperties { timestamp: Some(RecordTime::Created(millis)), leader_epoch: Some(0) };
    let entries = entries.into_iter().map(|(name, value)| (name.into(), value)).collect();
    RawMessage::kafka(properties, key.map(Bytes::from_static), entries, value)
}

impl Harness for Kafka {
    const FLAGS_REDELIVERY: bool = false;

    fn source(&self) -> Box<dyn Source> {
        let properties = [
            ("session.timeout.ms", "6000".to_owned()),
            ("heartbeat.interval.ms", "100".to_owned()),
            ("max.poll.interval.ms", POLL_INTERVAL.as_millis().to_string()),
        ];
        let settings = Settings {
            info: info("kafka"),
            cluster: Cluster {
                name: "broker".to_owned(),
                bootstrap_servers: self.kafka.brokers.clone(),
                properties: properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            },
            group: self.group.clone(),
            topics: Topics { names: [self.topic.clone()].into(), patterns: Vec::new() },
            start: Start::Earliest,
            share: SHARE,
            metrics: self.metrics.clone(),
        };
        Box::new(KafkaSource::start(settings, Arc::clone(&self.store) as _).expect("a thread"))
    }

    async fn publish(&self, messages: &[RawMessage]) {
        self.kafka.send(&self.topic, Some(0), messages).await;
    }

    fn odd_messages(&self) -> Vec<RawMessage> {
        let entries = vec![
            ("b", Value::Bytes(b"2".to_vec())),
            ("a", Value::Bytes(b"first".to_vec())),
            ("a", Value::Void),
            ("a", Value::Bytes(Vec::new())),
            ("", Value::Bytes(vec![0, 255])),
        ];
        // Retention goes by it: an old one would be removed at once.
        let now = crate::support::database::now().timestamp_millis();
        vec![
            kafka_message(Some(b"key"), entries, Some(Bytes::from_static(br#"{"order": 1}"#)), now),
            kafka_message(None, Vec::new(), None, now + 1),
            kafka_message(Some(b""), Vec::new(), Some(Bytes::new()), now - 1),
            kafka_message(Some(&[255, 0]), Vec::new(), Some(random_bytes(300_000, 1).into()), now),
        ]
    }

    async fn store(&self, claim: &Claim, deliveries: &[Delivery]) {
        let Claim::Positions(claim) = claim else { panic!("{claim:?}") };
        for (partition, expected) in &claim.expected {
            let known = &self.store.positions(&claim.group).await.expect("read")[partition];
            let of_it = deliveries.iter().filter(|delivery| delivery.token.session == expected.session);
            let last = of_it.filter_map(|delivery| delivery.captured.offset).max().expect("an offset");
            let at = At { offset: last + 1, ..expected.at };
            let new = Known { at, ..known.clone() };
            self.store.set_position(&claim.group, partition, Some(expected.at), &new, 0).await.expect("set");
        }
    }

    async fn break_session(&self) {
        self.kafka.throw_out(&self.group).await;
    }

    async fn wait_for_depth(&self, expected: usize) {
        eventually(&format!("{expected} messages that are not committed"), SOON, async || {
            let depth = self.kafka.depth(&self.group, &self.topic);
            (usize::try_from(depth) == Ok(expected)).then_some(())
        })
        .await;
    }

    async fn ready(&self) -> usize {
        let (_, end) = self.kafka.bounds(&self.topic, 0);
        usize::try_from(end).expect("an offset") - usize::try_from(self.metrics.held()).expect("small")
    }

    fn held_at_most(&self) -> usize {
        // The buffer is full when it holds this many bytes, and then a run of what librdkafka has comes.
        (SHARE / 3 / 20_000 + 1) * 2
    }

    fn silence(&self) -> Duration {
        POLL_INTERVAL + Duration::from_secs(2)
    }
}
