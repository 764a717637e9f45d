//! The audit trail: who did what to which letters, in the transaction that did it.

use serde_json::Value as Json;
use sqlx::PgConnection;

/// One thing somebody did.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) actor: &'a str,
    pub(super) action: &'a str,
    pub(super) letters: &'a [i64],
    pub(super) details: Json,
}

pub(super) async fn record(connection: &mut PgConnection, entry: Entry<'_>) -> Result<(), sqlx::Error> {
    // Called by everything that people ask to be changed, before its COMMIT.
    sqlx::query(
        "INSERT INTO dlo_audit (actor, action, letters, details) VALUES ($1, $2, nullif($3, '{}'), nullif($4, 'null'))",
    )
    .bind(entry.actor)
    .bind(entry.action)
    .bind(entry.letters)
    .bind(entry.details)
    .execute(connection)
    .await?;
    Ok(())
}
