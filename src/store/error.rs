//! What went wrong in the database, sorted by what helps.

use crate::source::positions::Moved;

/// Why rows were not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The database is away, full, read-only or busy: the same rows will be taken later.
    #[error("the database cannot take rows now")]
    Unavailable(#[source] sqlx::Error),
    /// It refuses something about these rows, now and always.
    #[error("the database refuses a row")]
    Refused(#[source] sqlx::Error),
    /// The queue's epoch was raised: some messages of this session may have been delivered again elsewhere.
    #[error("the capture session has to be seen alive again before it may commit")]
    Fenced,
    /// The database does not know the session (it was restored from a backup): it has to start again.
    #[error("the database does not know the capture session")]
    SessionUnknown,
    /// This very transaction has committed before; only its answer was lost.
    #[error("these rows are written already")]
    DoneAlready,
    /// The batch before this one has not committed yet; the connection was given back meanwhile.
    #[error("the batch before this one is not written yet")]
    NotMyTurn,
    /// Partitions are not where the claim expects them.
    #[error("positions are not where they were expected")]
    Moved(Vec<Moved>),
    /// Another writer stored the second copy of the same row first.
    #[error("another writer claimed the same row first")]
    ClaimedElsewhere,
}

impl WriteError {
    /// One word for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(error) => match code(error).as_deref() {
                Some("25006") => "read_only",
                Some("53100") => "disk_full",
                Some("53300") => "too_many_connections",
                Some(c) if c.starts_with("57") => "shutting_down",
                Some(c) if c.starts_with("28") => "not_authorized",
                Some(c) if c.starts_with("42") || c.starts_with("3") => "schema",
                Some(_) => "unavailable",
                None => "connection",
            },
            Self::Refused(_) => "refused",
            Self::Fenced => "fenced",
            Self::SessionUnknown => "session_unknown",
            Self::NotMyTurn => "not_my_turn",
            Self::DoneAlready => "done_already",
            Self::ClaimedElsewhere => "claimed_elsewhere",
            Self::Moved(_) => "moved",
        }
    }
}

impl From<sqlx::Error> for WriteError {
    fn from(error: sqlx::Error) -> Self {
        match code(&error).as_deref() {
            Some("DL001") => Self::Fenced,
            Some("DL002") => Self::ClaimedElsewhere,
            Some("DL003") => Self::DoneAlready,
            Some("DL004") => Self::SessionUnknown,
            Some("DL005") => super::positions::moved(&error).map_or(Self::Unavailable(error), Self::Moved),
            Some(c) if blames_rows(c) && !is_routed_anew(&error) => Self::Refused(error),
            _ => Self::Unavailable(error),
        }
    }
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}

/// Whether a SQLSTATE says that it is these rows that are not wanted.
///
/// 22 data, 23 constraints (somebody's CHECK, too), 54 limits of jsonb, stack and field sizes, P0 a trigger's own
/// RAISE, 53200 and XX000 an allocation larger than PostgreSQL allows. All else is about the server, not the row.
fn blames_rows(code: &str) -> bool {
    matches!(&code[..2.min(code.len())], "22" | "23" | "54" | "P0") || matches!(code, "53200" | "XX000")
}

/// Whether a partition was attached between the choice of the default one for a row and its lock: the next statement
/// finds the new one. The code is that of anybody's CHECK; which of the server's functions complains tells them apart.
fn is_routed_anew(error: &sqlx::Error) -> bool {
    let postgres =
        error.as_database_error().and_then(|error| error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>());
    postgres.and_then(sqlx::postgres::PgDatabaseError::routine) == Some("ExecPartitionCheckEmitError")
}

/// The server's message with its code, for notes and logs. It never contains row data: details are left out.
#[must_use]
pub(crate) fn describe(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().unwrap_or_default()),
        None => error.to_string(),
    }
}
