//! Proof that a batch is ours to write, for brokers that number messages by partition (Kafka).
//!
//! The position of a partition lives in the database and moves in the transaction that stores its rows, by
//! compare-and-set. So a row and its position are never apart, and whoever writes with an old position (a process that
//! woke up late, an instance whose partition went to another) is refused.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use uuid::Uuid;

use super::LedgerError;
use crate::dead_letter::DeadLetter;

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    pub topic: Arc<str>,
    pub number: i32,
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// Whose positions: one consumer group in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub cluster: String,
    pub name: String,
}

/// How far a partition has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Raised when the topic was made anew: its offsets begin again.
    pub epoch: i32,
    /// The next offset to read.
    pub offset: i64,
}

/// What the database knows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub at: At,
    /// Kafka's id of the topic; nil where the broker does not tell.
    pub topic_id: Uuid,
    /// The first offset that was ever to be read in this epoch: from there a database without memory begins again.
    pub since: i64,
}

/// The store's account of positions.
#[async_trait]
pub trait PositionLedger: Send + Sync {
    /// Names this installation: a random id, made with the database.
    async fn installation(&self) -> Result<Uuid, LedgerError>;

    /// All partitions of the group that are known.
    async fn positions(&self, group: &Group) -> Result<BTreeMap<Partition, Known>, LedgerError>;

    /// Sets a position without rows, if it is still as `expected` (`None`: not known). Returns what the database has
    /// afterwards. `lost` messages are known to have gone before they could be read.
    async fn set_position(
        &self,
        group: &Group,
        partition: &Partition,
        expected: Option<At>,
        new: &Known,
        lost: i64,
    ) -> Result<Known, LedgerError>;
}

/// A claim on the next messages of some partitions.
#[derive(Clone, Debug)]
pub struct PositionClaim {
    pub group: Arc<Group>,
    /// Ordered, because writers that move positions in different order wait for each other without end.
    pub expected: BTreeMap<Partition, Expected>,
    /// Partitions that the database refused: for [`super::Source::reclaim`].
    pub lost: Vec<Partition>,
}

/// Where a partition is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The assignment by which its messages came, as in [`super::AckToken::session`].
    pub session: u64,
    pub at: At,
}

/// One step of a partition's position, over the messages of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub partition: Partition,
    pub from: At,
    /// Of the first message. There is none between `from` and it, so the position may be anywhere there.
    pub first: i64,
    /// After the last message.
    pub to: i64,
}

/// Where the database has a partition that it refused to move; `None` when it does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub partition: Partition,
    pub at: Option<At>,
}

impl PositionClaim {
    /// The steps that storing `letters` means, in the order in which they are to be made.
    #[must_use]
    pub fn moves(&self, letters: &[DeadLetter]) -> Vec<Move> {
        let mut moves: Vec<Move> = Vec::new();
        for letter in letters {
            let captured = &letter.captured;
            let (Some(topic), Some(number), Some(offset)) = (&captured.topic, captured.partition, captured.offset)
            else {
                continue;
            };
            // Records come many of a partition at a time.
            let is_same = |step: &&mut Move| step.partition.number == number && step.partition.topic == *topic;
            if let Some(step) = moves.iter_mut().rev().find(is_same) {
                (step.first, step.to) = (step.first.min(offset), step.to.max(offset + 1));
            } else {
                let partition = Partition { topic: Arc::clone(topic), number };
                let from = self.expected.get(&partition).map_or(At { epoch: -1, offset: -1 }, |expected| expected.at);
                moves.push(Move { partition, from, first: offset, to: offset + 1 });
            }
        }
        moves.sort_unstable_by(|a, b| a.partition.cmp(&b.partition));
        moves
    }

    /// These steps have been made.
    pub fn advance(&mut self, moves: &[Move]) {
        for step in moves {
            if let Some(expected) = self.expected.get_mut(&step.partition) {
                expected.at.offset = step.to;
            }
        }
    }
}
