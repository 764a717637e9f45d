//! Capture sessions and queue epochs in the database.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;

use super::{
    PgStore,
    lease::{Lease, within_for},
};
use crate::source::{LedgerError, SessionLedger, session::Session};

/// These are asked by the loop that everything of a source waits for.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);

fn failed(error: sqlx::Error) -> LedgerError {
    LedgerError(Box::new(error))
}

#[async_trait]
impl SessionLedger for PgStore {
    async fn open(&self, source: &str, queue: &str) -> Result<Session, LedgerError> {
        let mut lease = Lease::take(self).await.map_err(failed)?;
        // Called before a channel takes its first message from a queue.
        let opened = sqlx::query(
            "WITH known AS (
                 INSERT INTO dlo_queue_epochs (source, queue) VALUES ($1, $2)
                 ON CONFLICT (source, queue) DO UPDATE SET epoch = dlo_queue_epochs.epoch RETURNING epoch
             ), ceiling AS (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END AS id FROM dead_letter_queue_id_seq),
             opened AS (
                 INSERT INTO dlo_capture_sessions (source, queue, instance, floor_id, ceiling_id)
                 SELECT $1, $2, $3, ceiling.id, ceiling.id FROM ceiling RETURNING id, ceiling_id
             )
             SELECT id, ceiling_id, epoch FROM opened, known",
        )
        .bind(source)
        .bind(queue)
        .bind(&self.instance)
        .fetch_one(lease.connection());
        let row = within_for(ANSWER_DEADLINE, opened).await.map_err(failed)?;
        lease.finish();
        let column = |name: &str| row.try_get::<i64, _>(name).map_err(failed);
        Ok(Session::new(column("id")?, column("epoch")?, column("ceiling_id")?))
    }

    async fn epoch(&self, session: &Session) -> Result<Option<i64>, LedgerError> {
        let mut lease = Lease::take(self).await.map_err(failed)?;
        // Called when a commit was refused because the queue's epoch had been raised.
        let epoch = sqlx::query_scalar(
            "SELECT e.epoch FROM dlo_capture_sessions s JOIN dlo_queue_epochs e ON e.source = s.source AND e.queue = s.queue
             WHERE s.id = $1 AND s.commits = $2",
        )
        .bind(session.id)
        .bind(session.next_commit() - 1)
        .fetch_optional(lease.connection());
        let epoch = within_for(ANSWER_DEADLINE, epoch).await.map_err(failed)?;
        lease.finish();
        Ok(epoch)
    }

    async fn raise_epoch(&self, session: &Session) -> Result<Option<i64>, LedgerError> {
        let mut lease = Lease::take(self).await.map_err(failed)?;
        // Called before a batch with redelivered messages is written. Waits for commits that hold the row.
        let epoch = sqlx::query_scalar(
            "UPDATE dlo_queue_epochs e SET epoch = e.epoch + 1 FROM dlo_capture_sessions s
             WHERE s.id = $1 AND e.source = s.source AND e.queue = s.queue RETURNING e.epoch",
        )
        .bind(session.id)
        .fetch_optional(lease.connection());
        let epoch = within_for(ANSWER_DEADLINE, epoch).await.map_err(failed)?;
        lease.finish();
        Ok(epoch)
    }

    async fn close(&self, session: &Session, all_acked: bool) -> Result<(), LedgerError> {
        let mut lease = Lease::take(self).await.map_err(failed)?;
        // Called when a channel is gone. Without open acks no row of it can come again.
        let closed = sqlx::query(
            "UPDATE dlo_capture_sessions SET closed_at = now(), floor_id = CASE WHEN $2 THEN ceiling_id ELSE floor_id END
             WHERE id = $1",
        )
        .bind(session.id)
        .bind(all_acked)
        .execute(lease.connection());
        within_for(ANSWER_DEADLINE, closed).await.map_err(failed)?;
        lease.finish();
        Ok(())
    }
}
