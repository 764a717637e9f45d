//! What people do to one letter: discard, reopen, resolve. Sending it home is in [`super::replays`].

use serde_json::json;
use sqlx::{PgConnection, Postgres, Row, Transaction};

use super::{
    PgStore, QueryError,
    audit::{self, Entry},
    reading::answered,
};
use crate::{dead_letter::Status, policy::moves};

/// A change of status that a person may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nobody will send it home.
    Discard,
    /// Back to FAILED, nothing due.
    Reopen,
    /// Somebody saw to it by other means.
    Resolve,
}

impl Action {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Reopen => "reopen",
            Self::Resolve => "resolve",
        }
    }

    fn status(self) -> Status {
        match self {
            Self::Discard => Status::Discarded,
            Self::Reopen => Status::Failed,
            Self::Resolve => Status::Resolved,
        }
    }
}

/// Why nothing was done to a letter.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    #[error("there is no letter {0}")]
    NotFound(i64),
    #[error("letter {letter} is {status}: {why}")]
    Status { letter: i64, status: String, why: String },
    #[error("replay {replay} of letter {letter} is under way")]
    UnderWay { letter: i64, replay: i64 },
    /// The letter cannot be sent to the target asked for.
    #[error("{0}")]
    NoWay(String),
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl PgStore {
    /// Changes the status of letter `id`, unless it has that status already. Returns whether it was changed.
    pub async fn act(&self, id: i64, action: Action, actor: &str, reason: Option<&str>) -> Result<bool, ActionError> {
        let mut txn = self.changing().await?;
        let from = lock(&mut txn, id).await?;
        let to = action.status();
        if from == to.as_str() {
            return Ok(false);
        }
        may_become(id, &from, to)?;
        none_under_way(&mut txn, id).await?;
        // Called by POST letters/{id}/discard, reopen and resolve.
        let update = sqlx::query(
            "UPDATE dead_letter_queue SET status = $2, next_retry_at = NULL,
                    resolved_by = CASE WHEN $2 = 'RESOLVED' THEN 'operator' END
             WHERE id = $1",
        );
        answered(update.bind(id).bind(to.as_str()).execute(&mut *txn)).await?;
        let details = json!({"from": from, "reason": reason});
        let entry = Entry { actor, action: action.as_str(), letters: &[id], details };
        answered(audit::record(&mut txn, entry)).await?;
        answered(txn.commit()).await?;
        Ok(true)
    }

    /// Begins a change that somebody waits for.
    pub(super) async fn changing(&self) -> Result<Transaction<'static, Postgres>, QueryError> {
        // Called before every change that people ask for.
        let begin = "BEGIN; SET LOCAL statement_timeout = 5000; SET LOCAL lock_timeout = 3000";
        answered(self.pool.begin_with(begin)).await
    }
}

/// The status of letter `id`, which nobody else changes until the transaction ends.
pub(super) async fn lock(connection: &mut PgConnection, id: i64) -> Result<String, ActionError> {
    // Called before a letter is changed.
    let row = sqlx::query("SELECT status FROM dead_letter_queue WHERE id = $1 FOR UPDATE").bind(id);
    let row = answered(row.fetch_optional(connection)).await?.ok_or(ActionError::NotFound(id))?;
    Ok(row.try_get("status").map_err(QueryError::from)?)
}

/// An attempt that was asked for is made, so nothing else may happen to its letter before it has ended.
pub(super) async fn none_under_way(connection: &mut PgConnection, letter: i64) -> Result<(), ActionError> {
    // Called before a letter is changed, which is locked.
    let open = sqlx::query_scalar::<_, i64>(
        "SELECT id FROM dlo_replays WHERE letter_id = $1 AND state IN ('PENDING', 'LEASED')",
    );
    match answered(open.bind(letter).fetch_optional(connection)).await? {
        Some(replay) => Err(ActionError::UnderWay { letter, replay }),
        None => Ok(()),
    }
}

fn may_become(letter: i64, from: &str, to: Status) -> Result<(), ActionError> {
    let known = Status::parse(from);
    if known.is_some_and(|from| moves::allowed(from).contains(&to)) {
        return Ok(());
    }
    let why = match known {
        Some(Status::Repeated) => "it is the return of another letter; act on the first one".to_owned(),
        Some(Status::Discarded) => format!("it cannot become {}; reopen it first", to.as_str()),
        _ => format!("it cannot become {}", to.as_str()),
    };
    Err(ActionError::Status { letter, status: from.to_owned(), why })
}
