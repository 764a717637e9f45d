//! What we capture from.

mod check;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use check::{check, unknown_broker};

use super::scalar::{Count, Start, Topic};

/// One source: a RabbitMQ queue, or Kafka topics read by one consumer group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name in the table, in metrics and on the command line: a-z, 0-9, `_`, `.` and `-`.
    pub name: String,
    /// The name of its broker.
    pub broker: String,
    /// RabbitMQ: the dead-letter exchange. With it exchange and queue are ours and dlo declares them: a durable
    /// topic exchange, bound to the queue with `#`. Without it the queue must exist and is only consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// RabbitMQ: the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// RabbitMQ: the type of a queue that dlo declares; quorum unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_type: Option<QueueType>,
    /// RabbitMQ: the most messages the broker sends ahead. Without it the number follows the size of the messages
    /// and `capture.memory`, which bounds it in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Count<1, 65_535>>,
    /// Kafka: the consumer group; `dlo` unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kafka: the topics; one that begins with `^` is a regular expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<Topic>,
    /// Kafka: where a group begins that has no position yet: `earliest` (unless said otherwise), `latest` or a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Stands in for `service_name` where a message does not name its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// What tells one failure group from another where the error alone does not.
    #[serde(default)]
    pub classifier: Classifier,
    /// How letters of this source are replayed.
    #[serde(default)]
    pub replay: SourceReplay,
}

/// The type of a queue that dlo declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueType {
    /// Replicated over the cluster.
    #[default]
    Quorum,
    /// On one node.
    Classic,
}

/// What tells one failure group from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Classifier {
    /// The error and its message.
    Error,
    /// The error and the place in the code.
    #[default]
    Place,
    /// The error and where the message came from.
    Origin,
}

/// How letters of one source are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceReplay {
    /// Where to, unless the request says otherwise.
    #[serde(default)]
    pub target: ReplayTarget,
}

/// Where replays go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayTarget {
    /// To the exchange and routing key, or topic, key and partition, of the original.
    #[default]
    Original,
    /// Only to the queue that failed.
    Queue,
}

/// A source's place at its broker, with defaults filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// With an exchange both are ours to declare.
    Queue {
        exchange: Option<&'a str>,
        queue: &'a str,
        queue_type: QueueType,
        prefetch: Option<u16>,
    },
    Topics {
        group: &'a str,
        topics: &'a [Topic],
        start: Start,
    },
}

impl Source {
    /// Writes out the defaults that depend on the kind of source, for those who read the configuration in effect.
    pub(super) fn spell_out(&mut self) {
        match self.place() {
            Place::Queue { exchange: Some(_), queue_type, .. } => self.queue_type = Some(queue_type),
            Place::Queue { exchange: None, .. } => {}
            Place::Topics { group, start, .. } => (self.group, self.start) = (Some(group.to_owned()), Some(start)),
        }
    }

    /// Where this source captures from. A checked source has either a queue or topics.
    #[must_use]
    pub fn place(&self) -> Place<'_> {
        if self.topics.is_empty() {
            Place::Queue {
                exchange: self.exchange.as_deref(),
                queue: self.queue.as_deref().unwrap_or_default(),
                queue_type: self.queue_type.unwrap_or_default(),
                prefetch: self.prefetch.and_then(|prefetch| u16::try_from(prefetch.get()).ok()),
            }
        } else {
            Place::Topics {
                group: self.group.as_deref().unwrap_or("dlo"),
                topics: &self.topics,
                start: self.start.unwrap_or(Start::Earliest),
            }
        }
    }
}
