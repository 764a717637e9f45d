//! Attempts to send letters home: asked for and looked at. Making them is the replay loop's.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value as Json;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    ActionError, PgStore, QueryError,
    actions::{lock, none_under_way},
    audit::{self, Entry},
    claim,
    reading::answered,
};
use crate::{
    dead_letter::Status,
    dialect::{Publish, Target},
    policy::{moves, target},
};

const COLUMNS: &str = "id, letter_id, token, source, target, sent_exchange, sent_routing_key, state, verdict, error, \
     requested_by, requested_at, instance, leased_at, done_at, returned_as";

/// One attempt.
#[derive(Clone, Debug, sqlx::FromRow, Serialize, ToSchema)]
pub struct Replay {
    pub id: i64,
    pub letter_id: i64,
    /// Travels as header `dlo-replay-id`.
    pub token: Uuid,
    pub source: Option<String>,
    #[schema(value_type = Object)]
    pub target: Json,
    pub sent_exchange: Option<String>,
    pub sent_routing_key: Option<String>,
    /// PENDING, LEASED, DONE or IN_DOUBT.
    pub state: String,
    /// ACCEPTED, ROUTED, CONSUMED, DIED_AGAIN, UNROUTABLE or REFUSED.
    pub verdict: Option<String>,
    pub error: Option<String>,
    pub requested_by: String,
    pub requested_at: DateTime<Utc>,
    pub instance: Option<String>,
    pub leased_at: Option<DateTime<Utc>>,
    pub done_at: Option<DateTime<Utc>>,
    pub returned_as: Option<i64>,
}

impl PgStore {
    /// Asks for letter `id` to be sent to `to`. The replay loop wakes up by the commit.
    pub async fn request_replay(&self, id: i64, to: &Target, actor: &str) -> Result<Replay, ActionError> {
        let mut txn = self.changing().await?;
        may_be_sent(id, &lock(&mut txn, id).await?)?;
        none_under_way(&mut txn, id).await?;
        // Whether there is a way is found out before anything is promised.
        way(&mut txn, id, to).await?;
        let to = target::to_json(to);
        // Called by POST letters/{id}/replay.
        let insert = format!(
            "INSERT INTO dlo_replays (letter_id, letter_created_at, token, source, target, requested_by)
             SELECT id, created_at, $2, source, $3, $4 FROM dead_letter_queue WHERE id = $1 RETURNING {COLUMNS}"
        );
        let insert = sqlx::query_as::<_, Replay>(&insert).bind(id).bind(Uuid::new_v4()).bind(&to).bind(actor);
        let replay = answered(insert.fetch_one(&mut *txn)).await?;
        let details = serde_json::json!({"replay": replay.id, "target": to});
        answered(audit::record(&mut txn, Entry { actor, action: "replay", letters: &[id], details })).await?;
        answered(txn.commit()).await?;
        Ok(replay)
    }

    /// What [`PgStore::request_replay`] would have published. Changes nothing.
    pub async fn preview_replay(&self, id: i64, to: &Target) -> Result<Publish, ActionError> {
        let mut reading = self.reading().await?;
        // Called by POST letters/{id}/replay with dry_run.
        let status = sqlx::query_scalar::<_, String>("SELECT status FROM dead_letter_queue WHERE id = $1").bind(id);
        let status = answered(status.fetch_optional(reading.connection())).await?.ok_or(ActionError::NotFound(id))?;
        may_be_sent(id, &status)?;
        none_under_way(reading.connection(), id).await?;
        way(reading.connection(), id, to).await
    }

    pub async fn replay(&self, id: i64) -> Result<Option<Replay>, QueryError> {
        let mut reading = self.reading().await?;
        // Called by GET replays/{id}.
        let sql = format!("SELECT {COLUMNS} FROM dlo_replays WHERE id = $1");
        answered(sqlx::query_as(&sql).bind(id).fetch_optional(reading.connection())).await
    }

    /// The newest attempts at letter `id`, oldest first.
    pub async fn replays_of(&self, letter: i64) -> Result<Vec<Replay>, QueryError> {
        let mut reading = self.reading().await?;
        // Called by GET letters/{id}/lives.
        let sql = format!("SELECT {COLUMNS} FROM dlo_replays WHERE letter_id = $1 ORDER BY id DESC LIMIT 200");
        let mut replays: Vec<Replay> =
            answered(sqlx::query_as(&sql).bind(letter).fetch_all(reading.connection())).await?;
        replays.reverse();
        Ok(replays)
    }
}

fn may_be_sent(letter: i64, status: &str) -> Result<(), ActionError> {
    let known = Status::parse(status);
    if known.is_some_and(moves::may_replay) {
        return Ok(());
    }
    let why = match known {
        Some(Status::Repeated) => "it is the return of another letter; replay the first one",
        Some(Status::Duplicate) => "it is a second copy of another letter; replay that one, or reopen this one first",
        Some(Status::Discarded) => "reopen it first",
        Some(Status::Replaying) => "it is on its way",
        _ => "it cannot be replayed",
    };
    Err(ActionError::Status { letter, status: status.to_owned(), why: why.to_owned() })
}

/// The publish that sends letter `id` to `to`.
async fn way(connection: &mut PgConnection, id: i64, to: &Target) -> Result<Publish, ActionError> {
    // Called when a replay is asked for or previewed.
    let sql = format!("SELECT {} FROM dead_letter_queue d WHERE id = $1", claim::SENT_COLUMNS);
    let row =
        answered(sqlx::query(&sql).bind(id).fetch_optional(connection)).await?.ok_or(ActionError::NotFound(id))?;
    // The same reading as the replay loop's, so that what is promised here is what it does.
    let letter = claim::letter(&row).map_err(QueryError::from)?;
    letter.home(to).map_err(ActionError::NoWay)
}
