//! Letters as they are told: the column names, as in the table.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, value::RawValue};
use utoipa::ToSchema;

/// No wide columns: reading them for every row of a list would cost more than all the rest.
pub(super) const LIST_COLUMNS: &str = "id, created_at, service_name, event_type, status, resolved_by, error_class, \
     left(error_message, 500) AS error_message, retry_count, attempts, source, broker, broker_kind, vhost, dialect, team, \
     origin_exchange, origin_routing_key, origin_queue, origin_topic, origin_partition, origin_offset, consumer, \
     captured_queue, captured_topic, message_id, correlation_id, trace_id, payload_state, octet_length(body) AS body_bytes, \
     failed_at, tags, next_retry_at, failure_group_id, replay_of, duplicate_of";

/// A letter in a list.
#[derive(Clone, Debug, sqlx::FromRow, Serialize, ToSchema)]
pub struct LetterRow {
    pub id: i64,
    pub created_at: DateTime<Utc>,
    pub service_name: String,
    pub event_type: String,
    pub status: String,
    pub resolved_by: Option<String>,
    pub error_class: Option<String>,
    /// In lists its first 500 characters.
    pub error_message: Option<String>,
    pub retry_count: i32,
    pub attempts: Option<i32>,
    pub source: Option<String>,
    pub broker: Option<String>,
    pub broker_kind: String,
    pub vhost: Option<String>,
    pub dialect: Option<String>,
    pub team: Option<String>,
    pub origin_exchange: Option<String>,
    pub origin_routing_key: Option<String>,
    pub origin_queue: Option<String>,
    pub origin_topic: Option<String>,
    pub origin_partition: Option<i32>,
    pub origin_offset: Option<i64>,
    pub consumer: Option<String>,
    pub captured_queue: Option<String>,
    pub captured_topic: Option<String>,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub payload_state: String,
    /// Size of the body; null when there is none.
    pub body_bytes: Option<i32>,
    pub failed_at: Option<DateTime<Utc>>,
    pub tags: Option<Vec<String>>,
    pub next_retry_at: Option<DateTime<Utc>>,
    pub failure_group_id: Option<i64>,
    pub replay_of: Option<i64>,
    pub duplicate_of: Option<i64>,
}

/// JSON as PostgreSQL wrote it: its numbers may be larger than any type of ours.
type Jsonb = sqlx::types::Json<Box<RawValue>>;

/// A letter with all there is. Bytes are base64.
#[derive(Clone, Debug, sqlx::FromRow, Serialize, ToSchema)]
pub struct Letter {
    #[sqlx(flatten)]
    #[serde(flatten)]
    pub row: LetterRow,
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Jsonb>,
    pub traceback: Option<String>,
    pub origin_timestamp: Option<DateTime<Utc>>,
    pub captured_exchange: Option<String>,
    pub captured_routing_key: Option<String>,
    pub captured_partition: Option<i32>,
    pub captured_offset: Option<i64>,
    #[serde(serialize_with = "base64_or_null")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub message_key: Option<Vec<u8>>,
    #[serde(serialize_with = "base64_or_null")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub body: Option<Vec<u8>>,
    #[schema(value_type = Option<Object>)]
    pub headers: Option<Jsonb>,
    #[serde(serialize_with = "base64_or_null")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub wire: Option<Vec<u8>>,
    #[schema(value_type = Option<Object>)]
    pub notes: Option<Jsonb>,
    /// The message's AMQP properties, read from `wire`.
    #[sqlx(skip)]
    #[schema(value_type = Option<Object>)]
    pub properties: Option<Map<String, Json>>,
    /// Columns left out because of their size; the body is at `/body`.
    #[sqlx(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<&'static str>,
}

impl Letter {
    /// Takes out what holds the business content, for those who may not see it.
    pub fn withhold_body(&mut self) {
        (self.body, self.payload, self.wire) = (None, None, None);
        self.omitted = vec!["body", "payload", "wire"];
    }
}

/// A letter's bytes.
#[derive(Clone, Debug)]
pub struct Body {
    pub bytes: Vec<u8>,
    /// What the message says of itself.
    pub content_type: Option<String>,
}

fn base64_or_null<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
        None => serializer.serialize_none(),
    }
}
