//! One letter, and its body.

use serde_json::{Map, Value as Json, json};

use super::rows::{Body, LIST_COLUMNS, Letter};
use crate::{
    message::{AmqpProperties, KafkaProperties, Properties, RawMessage, RecordTime, Text, wire},
    store::{PgStore, QueryError, reading::answered},
};

/// A larger body is left out of the JSON and had from `/body` alone.
const INLINE_BYTES_MAX: i32 = 4 * 1024 * 1024;

impl PgStore {
    /// One letter with all there is.
    pub async fn letter(&self, id: i64) -> Result<Option<Letter>, QueryError> {
        let mut reading = self.reading().await?;
        // Called by GET letters/{id}. The full message stands in for the cut one of lists.
        let columns = LIST_COLUMNS.replace("left(error_message, 500) AS error_message", "error_message");
        let sql = format!(
            "SELECT {columns}, traceback, origin_timestamp, captured_exchange, captured_routing_key, captured_partition,
                    captured_offset, message_key, headers, wire, notes,
                    CASE WHEN coalesce(octet_length(body), 0) <= $2 THEN payload END AS payload,
                    CASE WHEN octet_length(body) <= $2 THEN body END AS body
             FROM dead_letter_queue WHERE id = $1"
        );
        let found = sqlx::query_as::<_, Letter>(&sql).bind(id).bind(INLINE_BYTES_MAX);
        let Some(mut letter) = answered(found.fetch_optional(reading.connection())).await? else { return Ok(None) };
        if letter.row.body_bytes > Some(INLINE_BYTES_MAX) {
            letter.omitted = vec!["body", "payload"];
        }
        letter.properties = message(letter.wire.as_deref(), letter.traceback.as_deref()).as_ref().map(properties);
        Ok(Some(letter))
    }

    /// The exact bytes; for a letter that a service wrote, its payload. `None`: no such letter; `Some(None)`: it
    /// has no body.
    pub async fn body(&self, id: i64) -> Result<Option<Option<Body>>, QueryError> {
        type Row = (Option<Vec<u8>>, Option<String>, Option<Vec<u8>>, Option<String>);
        let mut reading = self.reading().await?;
        // Called by GET letters/{id}/body.
        let row = sqlx::query_as::<_, Row>(
            "SELECT body, CASE WHEN body IS NULL AND payload_state = 'sql' THEN payload::text END, wire, traceback
             FROM dead_letter_queue WHERE id = $1",
        );
        let row = answered(row.bind(id).fetch_optional(reading.connection())).await?;
        Ok(row.map(|(body, payload, wire, traceback)| {
            let told = message(wire.as_deref(), traceback.as_deref());
            let content_type =
                told.and_then(|m| m.properties.amqp()?.content_type.as_ref()?.as_str().map(str::to_owned));
            let exact = body.map(|bytes| Body { bytes, content_type });
            exact.or_else(|| {
                payload.map(|text| Body { bytes: text.into_bytes(), content_type: Some("application/json".to_owned()) })
            })
        }))
    }
}

/// What cannot be read any more is shown without its properties; a replay says why.
fn message(wire: Option<&[u8]>, traceback: Option<&str>) -> Option<RawMessage> {
    wire::decode(wire?, traceback).ok()
}

/// The properties that are set, under their protocol's names.
pub(crate) fn properties(message: &RawMessage) -> Map<String, Json> {
    let properties = match &message.properties {
        Properties::Amqp(properties) => amqp(properties),
        Properties::Kafka(properties) => kafka(*properties),
    };
    properties.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

type Named = Vec<(&'static str, Option<Json>)>;

fn kafka(p: KafkaProperties) -> Named {
    let kind = p.timestamp.map(|timestamp| match timestamp {
        RecordTime::Created(_) => json!("CreateTime"),
        RecordTime::Appended(_) => json!("LogAppendTime"),
    });
    let timestamp = p.timestamp.map(|timestamp| json!(timestamp.millis()));
    vec![("timestamp", timestamp), ("timestamp_type", kind), ("leader_epoch", p.leader_epoch.map(|epoch| json!(epoch)))]
}

fn amqp(p: &AmqpProperties) -> Named {
    let text = |text: &Option<Text>| text.as_ref().map(crate::message::natural::text);
    vec![
        ("content_type", text(&p.content_type)),
        ("content_encoding", text(&p.content_encoding)),
        ("delivery_mode", p.delivery_mode.map(|v| json!(v))),
        ("priority", p.priority.map(|v| json!(v))),
        ("correlation_id", text(&p.correlation_id)),
        ("reply_to", text(&p.reply_to)),
        ("expiration", text(&p.expiration)),
        ("message_id", text(&p.message_id)),
        ("timestamp", p.timestamp.map(|v| json!(v))),
        ("type", text(&p.kind)),
        ("user_id", text(&p.user_id)),
        ("app_id", text(&p.app_id)),
        ("cluster_id", text(&p.cluster_id)),
    ]
}
