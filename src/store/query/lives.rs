//! The lives of a letter: the first, what came back of its replays, second copies, and the replays themselves.

use serde::Serialize;
use utoipa::ToSchema;

use super::rows::{LIST_COLUMNS, LetterRow};
use crate::store::{PgStore, QueryError, reading::answered, replays::Replay};

/// How many of each are told; a letter with more has a rule gone wrong.
const EACH_MAX: i64 = 200;

/// One message through all its deaths.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Lives {
    pub first: LetterRow,
    /// What came back, oldest first.
    pub returns: Vec<LetterRow>,
    /// Second copies of any of them.
    pub duplicates: Vec<LetterRow>,
    /// Attempts to send it home, oldest first.
    pub replays: Vec<Replay>,
}

impl PgStore {
    /// The lives to which letter `id` belongs, whichever of them it is.
    pub async fn lives(&self, id: i64) -> Result<Option<Lives>, QueryError> {
        let mut reading = self.reading().await?;
        // Called by GET letters/{id}/lives. A copy of a return leads to the return, which leads to the first.
        let first = sqlx::query_scalar::<_, i64>(
            "SELECT coalesce(original.replay_of, original.id, asked.replay_of, asked.duplicate_of, asked.id)
             FROM dead_letter_queue asked LEFT JOIN dead_letter_queue original ON original.id = asked.duplicate_of
             WHERE asked.id = $1",
        );
        let Some(first) = answered(first.bind(id).fetch_optional(reading.connection())).await? else { return Ok(None) };
        // Called by GET letters/{id}/lives, through the partial indexes on the two links.
        let family = format!(
            "SELECT {LIST_COLUMNS} FROM dead_letter_queue WHERE id = $1
             UNION ALL (SELECT {LIST_COLUMNS} FROM dead_letter_queue WHERE replay_of = $1 ORDER BY id LIMIT $2)
             UNION ALL (SELECT {LIST_COLUMNS} FROM dead_letter_queue WHERE duplicate_of IN (
                 SELECT $1 UNION ALL SELECT id FROM dead_letter_queue WHERE replay_of = $1) ORDER BY id LIMIT $2)"
        );
        let family = sqlx::query_as::<_, LetterRow>(&family).bind(first).bind(EACH_MAX);
        let rows = answered(family.fetch_all(reading.connection())).await?;
        drop(reading);
        let replays = self.replays_of(first).await?;
        let (heads, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.id == first);
        // The first may be gone by retention while its return is not: the return tells the story then.
        let (returns, mut duplicates): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|row| row.replay_of == Some(first));
        duplicates.dedup_by_key(|row| row.id);
        let mut heads = heads.into_iter();
        let head = heads.next().or_else(|| returns.first().cloned()).or_else(|| duplicates.first().cloned());
        Ok(head.map(|first| Lives { first, returns, duplicates, replays }))
    }
}
