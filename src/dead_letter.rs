//! A dead letter: one captured failed message with all that was understood of it, one row of the table.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::message::{RawMessage, Text};

/// Header of a replay: the letter's id.
pub const LETTER_ID: &str = "dlo-letter-id";
/// Header of a replay: the token of the attempt. RabbitMQ reads names with `x-` itself, so ours do not start so.
pub const REPLAY_ID: &str = "dlo-replay-id";

/// Column `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Failed,
    PendingRetry,
    Replaying,
    Replayed,
    Resolved,
    Dead,
    Discarded,
    Duplicate,
    Repeated,
}

impl Status {
    pub const ALL: [Self; 9] = [
        Self::Failed,
        Self::PendingRetry,
        Self::Replaying,
        Self::Replayed,
        Self::Resolved,
        Self::Dead,
        Self::Discarded,
        Self::Duplicate,
        Self::Repeated,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::PendingRetry => "PENDING_RETRY",
            Self::Replaying => "REPLAYING",
            Self::Replayed => "REPLAYED",
            Self::Resolved => "RESOLVED",
            Self::Dead => "DEAD",
            Self::Discarded => "DISCARDED",
            Self::Duplicate => "DUPLICATE",
            Self::Repeated => "REPEATED",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(text))
    }
}

/// Column `payload_state`: how much of the original the broker still had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadState {
    #[default]
    Complete,
    /// An envelope was opened.
    Wrapped,
    /// The framework dropped or re-encoded headers, key or body.
    Lossy,
    /// The letter only names its record.
    Pointer,
    Tombstone,
}

impl PayloadState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Wrapped => "wrapped",
            Self::Lossy => "lossy",
            Self::Pointer => "pointer",
            Self::Tombstone => "tombstone",
        }
    }
}

/// Where we took a message from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedFrom {
    pub queue: Option<Arc<str>>,
    pub exchange: Option<Text>,
    pub routing_key: Option<Text>,
    pub topic: Option<Arc<str>>,
    pub partition: Option<i32>,
    pub offset: Option<i64>,
    /// The broker says it may have delivered this message before.
    pub redelivered: bool,
}

/// Where a message was first published and where it died, as far as its headers tell. Nothing is guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub exchange: Option<Text>,
    pub routing_key: Option<Text>,
    /// The queue where it died.
    pub queue: Option<Text>,
    pub topic: Option<Text>,
    pub partition: Option<i32>,
    pub offset: Option<i64>,
    /// The producer's time of the original.
    pub timestamp: Option<DateTime<Utc>>,
}

/// Why it failed, in the failing side's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureInfo {
    /// Who failed: consumer group, actor, consumer class or task; else the failed queue.
    pub consumer: Option<String>,
    /// The innermost cause where the dialect gives a chain.
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub traceback: Option<String>,
    /// The consumer's own tries: 0 never tried, `None` unknown.
    pub attempts: Option<i32>,
    pub failed_at: Option<DateTime<Utc>>,
}

/// What a dialect understood of one message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The dialect that spoke; `None` when nothing was recognised.
    pub dialect: Option<&'static str>,
    pub origin: Origin,
    pub failure: FailureInfo,
    /// The application the dialect names, never a client library's own name.
    pub service: Option<String>,
    pub event_type: Option<String>,
    /// The business payload where an envelope was opened; otherwise the body is the payload.
    pub payload: Option<Bytes>,
    pub payload_state: PayloadState,
    pub notes: Notes,
}

/// Column `notes`: what had to be done to store a letter, doubts, secondary dialects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes(Map<String, Json>);

impl Notes {
    pub fn set(&mut self, name: &str, value: impl Into<Json>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub fn unset(&mut self, name: &str) {
        self.0.shift_remove(name);
    }

    /// Appends to the list `name`.
    pub fn add(&mut self, name: &str, value: impl Into<Json>) {
        if let Json::Array(list) = self.0.entry(name).or_insert_with(|| Json::Array(Vec::new())) {
            list.push(value.into());
        }
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        Json::Object(self.0.clone()).to_string()
    }
}

/// By what a message is known elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
}

/// What every letter of one source has in common.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The source's name in the configuration.
    pub name: String,
    /// The broker's name in the configuration.
    pub broker: String,
    /// Column `broker_kind`.
    pub broker_kind: &'static str,
    pub vhost: Option<String>,
    /// Fallback for `service_name`.
    pub service: Option<String>,
}

/// One row to be.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub source: Arc<SourceInfo>,
    pub captured: CapturedFrom,
    pub message: RawMessage,
    pub reading: Reading,
    pub ids: Ids,
    pub status: Status,
    /// The first letter whose replay this is the return of.
    pub replay_of: Option<i64>,
    /// The letter this is a second copy of.
    pub duplicate_of: Option<i64>,
    /// Channel session and delivery tag, by which a second copy is told from a new message.
    pub session: Option<(i64, i64)>,
}

impl DeadLetter {
    /// Never empty: the dialect's application, else the source's `service`, else the consumer, else `unknown`.
    #[must_use]
    pub fn service_name(&self) -> &str {
        let named =
            [self.reading.service.as_deref(), self.source.service.as_deref(), self.reading.failure.consumer.as_deref()];
        named.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("unknown")
    }

    /// Type header or task where known, else the original routing key or topic, else the one it was captured by.
    #[must_use]
    pub fn event_type(&self) -> &str {
        let origin = &self.reading.origin;
        let named = [
            self.reading.event_type.as_deref(),
            origin.routing_key.as_ref().and_then(Text::as_sql),
            origin.topic.as_ref().and_then(Text::as_sql),
            self.captured.routing_key.as_ref().and_then(Text::as_sql),
            self.captured.topic.as_deref(),
        ];
        named.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("unknown")
    }
}
