//! What a source last saw at its broker, for people who list sources.

use std::{collections::BTreeMap, time::Instant};

/// One source's view of its broker.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Kafka: the id of the cluster whose group was joined.
    pub cluster: Option<String>,
    /// Kafka: by topic and number.
    pub partitions: BTreeMap<(String, i32), SeenPartition>,
    /// RabbitMQ: messages not stored yet, by queue.
    pub waiting: BTreeMap<String, u64>,
    pub last_stored: Option<Instant>,
}

/// One partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenPartition {
    /// Offsets of the first message and after the last one; `None` until the brokers were asked.
    pub bounds: Option<(i64, i64)>,
    /// Nothing is read while the position is this one.
    pub stopped_at: Option<i64>,
    /// The group's offset, which somebody set and dlo does not go by.
    pub reset_to: Option<i64>,
}

impl Seen {
    pub(super) fn partition(&mut self, topic: &str, number: i32) -> &mut SeenPartition {
        self.partitions.entry((topic.to_owned(), number)).or_default()
    }
}
