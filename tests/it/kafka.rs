//! The real program and the real Kafka: every record once, whatever happens to either, or to the database.
//!
//! With `DLO_LONG=1` with larger numbers: `DLO_LONG=1 cargo test --test it kafka:: -- --test-threads 1 --nocapture`.

mod access;
mod cluster;
mod database;
mod home;
mod instances;
mod records;
mod seek;
mod topics;

use std::{sync::Arc, time::Duration};

use dead_letter_office::message::{Headers, KafkaProperties, RawMessage};

use crate::support::{
    SOON,
    database::{Database, Tally},
    eventually,
    kafka::Kafka,
    link::Link,
    program::{Program, Setup, free_port},
    unique,
};

/// A topic, a group and a table of one's own.
struct Post {
    kafka: Arc<Kafka>,
    database: Database,
    topic: String,
    group: String,
    setup: Setup,
    /// Where `dlo` finds the cluster.
    bootstrap: String,
    /// In YAML: beside `name`, `broker` and `group`.
    source: String,
    properties: String,
    tls: String,
}

impl Post {
    async fn new(partitions: i32) -> Self {
        Self::with(Database::fresh().await, partitions, &[]).await
    }

    async fn with(database: Database, partitions: i32, config: &[(&str, &str)]) -> Self {
        Self::at(Kafka::connect(), database, partitions, config).await
    }

    async fn at(kafka: Kafka, database: Database, partitions: i32, config: &[(&str, &str)]) -> Self {
        let kafka = Arc::new(kafka);
        let topic = kafka.topic_with(partitions, config).await;
        let source = format!("topics: [\"{topic}\"]");
        let properties = "session.timeout.ms: 6000, heartbeat.interval.ms: 500".to_owned();
        let setup = Setup::of_database(&database);
        let (bootstrap, tls) = (kafka.brokers.clone(), String::new());
        Self { kafka, database, topic, group: unique("group"), setup, bootstrap, source, properties, tls }
    }

    fn yaml(&self, http: std::net::SocketAddr, metrics: std::net::SocketAddr) -> String {
        let Self { bootstrap, group, source, properties, .. } = self;
        let tls = if self.tls.is_empty() { String::new() } else { format!(", tls: {{ {} }}", self.tls) };
        format!(
            "database: {{ url: \"${{env:DLO_DATABASE_URL}}\" }}\n\
             brokers: {{ kafka: {{ kafka: {{ bootstrap_servers: \"{bootstrap}\", properties: {{ {properties} }}{tls} }} }} }}\n\
             sources: [ {{ name: orders, broker: kafka, group: {group}, {source} }} ]\n\
             http: {{ listen: \"{http}\" }}\n\
             metrics: {{ listen: \"{metrics}\" }}\n"
        )
    }

    fn start(&self) -> Program {
        self.start_with(&self.setup)
    }

    /// Reaches the database over `link`.
    fn start_over(&self, link: &Link) -> Program {
        self.start_with(&self.setup.clone().database_over(link))
    }

    fn start_with(&self, setup: &Setup) -> Program {
        let (http, metrics) = (free_port(), free_port());
        setup.start_with(&self.yaml(http, metrics), metrics)
    }

    async fn send(&self, records: &[RawMessage]) {
        self.kafka.send(&self.topic, None, records).await;
    }

    /// So many rows, and then no more of them.
    async fn stored(&self, rows: usize, within: Duration) {
        eventually(&format!("{rows} rows"), within, async || {
            let stored: i64 = self.database.try_scalar("SELECT count(*) FROM dead_letter_queue").await?;
            (usize::try_from(stored) == Ok(rows)).then_some(())
        })
        .await;
    }

    /// The promise: every record is in the table, and none twice.
    async fn is_exactly(&self, records: &[RawMessage]) {
        let places: i64 = self
            .database
            .scalar(
                "SELECT count(DISTINCT (captured_topic, captured_partition, captured_offset)) FROM dead_letter_queue",
            )
            .await;
        assert_eq!(self.database.count().await, places, "the same place twice");
        let bodies = records.iter().map(|record| record.body.as_deref().unwrap_or_default());
        assert_eq!(self.database.failed().await, Tally::of(bodies));
        self.positions_are_at_the_rows().await;
    }

    /// No position is before a row, nor has it been left behind it.
    async fn positions_are_at_the_rows(&self) {
        let ahead: i64 = self
            .database
            .scalar(
                "SELECT count(*) FROM dead_letter_queue d JOIN dlo_positions p ON p.topic = d.captured_topic AND p.partition = d.captured_partition
                 WHERE d.captured_offset >= p.position AND p.epoch = 0",
            )
            .await;
        assert_eq!(ahead, 0, "rows that no position has passed");
    }
}

/// Numbered JSON bodies with keys, all different.
fn numbered(from: usize, count: usize) -> Vec<RawMessage> {
    (from..from + count)
        .map(|n| {
            let body = format!(r#"{{"order": {n}, "text": "number {n}"}}"#);
            let key = format!("key {n}");
            RawMessage::kafka(KafkaProperties::default(), Some(key.into()), Headers::new(), Some(body.into()))
        })
        .collect()
}

/// How long a consumer may take to notice something by itself.
const NOTICED: Duration = SOON;
