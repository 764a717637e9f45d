//! Rows as tests look at them.

use chrono::{DateTime, Utc};
use dead_letter_office::message::{RawMessage, wire};
use serde_json::Value as Json;

use super::database::Database;

/// Every column that capture writes.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct Letter {
    pub(crate) id: i64,
    pub(crate) service_name: String,
    pub(crate) event_type: String,
    /// As PostgreSQL prints it.
    pub(crate) payload: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) traceback: Option<String>,
    pub(crate) retry_count: i32,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) status: String,
    pub(crate) error_class: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) broker: Option<String>,
    pub(crate) broker_kind: String,
    pub(crate) vhost: Option<String>,
    pub(crate) dialect: Option<String>,
    pub(crate) origin_exchange: Option<String>,
    pub(crate) origin_routing_key: Option<String>,
    pub(crate) origin_queue: Option<String>,
    pub(crate) origin_topic: Option<String>,
    pub(crate) origin_timestamp: Option<DateTime<Utc>>,
    pub(crate) consumer: Option<String>,
    pub(crate) captured_topic: Option<String>,
    pub(crate) captured_partition: Option<i32>,
    pub(crate) captured_offset: Option<i64>,
    pub(crate) captured_queue: Option<String>,
    pub(crate) captured_exchange: Option<String>,
    pub(crate) captured_routing_key: Option<String>,
    pub(crate) message_key: Option<Vec<u8>>,
    pub(crate) message_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) payload_state: String,
    /// As PostgreSQL prints it: its numbers may be larger than any of ours.
    headers: Option<String>,
    pub(crate) wire: Option<Vec<u8>>,
    pub(crate) failed_at: Option<DateTime<Utc>>,
    pub(crate) attempts: Option<i32>,
    pub(crate) replay_of: Option<i64>,
    pub(crate) duplicate_of: Option<i64>,
    pub(crate) capture_session: Option<i64>,
    pub(crate) delivery_tag: Option<i64>,
    pub(crate) notes: Option<Json>,
}

impl Letter {
    /// The message as a replay would publish it.
    pub(crate) fn message(&self) -> RawMessage {
        let wire = self.wire.as_deref().expect("wire is there");
        let mut message = wire::decode(wire, self.traceback.as_deref()).expect("decodes");
        message.body = self.body.clone().map(Into::into);
        message
    }

    /// The headers for reading.
    pub(crate) fn headers(&self) -> Json {
        serde_json::from_str(self.headers.as_deref().expect("headers are there")).expect("JSON")
    }

    /// A text of `notes`.
    pub(crate) fn note(&self, name: &str) -> Option<&str> {
        self.notes.as_ref()?.get(name)?.as_str()
    }
}

impl Database {
    /// All letters, in the order in which they came: ids are given to the rows of two batches in any order.
    pub(crate) async fn letters(&self) -> Vec<Letter> {
        sqlx::query_as(
            "SELECT *, payload::text AS payload, headers::text AS headers FROM dead_letter_queue
             ORDER BY capture_session, delivery_tag",
        )
        .fetch_all(&self.pool)
        .await
        .expect("read")
    }

    pub(crate) async fn letter(&self) -> Letter {
        let mut letters = self.letters().await;
        assert_eq!(letters.len(), 1);
        letters.remove(0)
    }
}
