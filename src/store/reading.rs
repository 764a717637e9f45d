//! Asking without hurting: people's questions get few connections, little time, and may change nothing.

use std::time::Duration;

use sqlx::{PgConnection, Postgres, Transaction};
use tokio::{sync::SemaphorePermit, time::timeout};

use super::{PgStore, error::describe};

/// The server gives a question up after this long.
const STATEMENT_TIMEOUT_MS: u32 = 5_000;
/// We give the server up after this long: a peer that vanished never answers.
const ANSWER_DEADLINE: Duration = Duration::from_secs(8);
/// How long a question waits for one before it.
const TURN_WAIT_MAX: Duration = Duration::from_secs(4);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("the database does not answer")]
    Unavailable(#[source] sqlx::Error),
    #[error("too many questions at once; ask again in a moment")]
    Busy,
    #[error("the database took longer than {} s; narrow the selection (--since, --service, --status)", STATEMENT_TIMEOUT_MS / 1000)]
    TooSlow,
    /// The server refuses a value in the question.
    #[error("{0}")]
    Refused(String),
    #[error("the schema is not up to date; run: dlo migrate")]
    Schema(#[source] sqlx::Error),
}

impl From<sqlx::Error> for QueryError {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|db| db.code()).unwrap_or_default().into_owned();
        match code.as_str() {
            "57014" => Self::TooSlow,
            "42601" => Self::Refused(describe(&error)),
            c if c.starts_with("22") => Self::Refused(describe(&error)),
            c if c.starts_with("42") => Self::Schema(error),
            _ => Self::Unavailable(error),
        }
    }
}

/// One question's transaction; rolled back when dropped.
pub(super) struct Reading<'s> {
    txn: Transaction<'static, Postgres>,
    _turn: SemaphorePermit<'s>,
}

impl Reading<'_> {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.txn
    }
}

impl PgStore {
    /// Begins a question. At most half of the pool is used for questions at once.
    pub(super) async fn reading(&self) -> Result<Reading<'_>, QueryError> {
        let turn = timeout(TURN_WAIT_MAX, self.readers.acquire()).await;
        let turn = turn.map_err(|_| QueryError::Busy)?.map_err(|_| QueryError::Busy)?;
        // Called before every question. No compiled plans: they cost more than a page of letters does.
        let begin =
            format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {STATEMENT_TIMEOUT_MS}; SET LOCAL jit = off");
        let txn = answered(self.pool.begin_with(begin)).await?;
        Ok(Reading { txn, _turn: turn })
    }

    /// Whether the database answers, within `deadline`. For readiness.
    pub async fn answers(&self, deadline: Duration) -> bool {
        let asked = sqlx::query("SELECT 1").execute(&self.pool);
        matches!(timeout(deadline, asked).await, Ok(Ok(_)))
    }
}

/// Bounds a wait on the database from our side.
pub(super) async fn answered<T>(wait: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, QueryError> {
    match timeout(ANSWER_DEADLINE, wait).await {
        Ok(result) => result.map_err(QueryError::from),
        Err(_) => Err(QueryError::Unavailable(sqlx::Error::PoolTimedOut)),
    }
}
