//! Who runs, and how many letters there are.

use super::{
    PgStore,
    lease::{Lease, within},
};

impl PgStore {
    /// Says that this instance is there.
    pub async fn present(&self, host: &str, version: &str, parts: &[&str]) -> Result<(), sqlx::Error> {
        // Called at start and every few seconds.
        sqlx::query(
            "INSERT INTO dlo_instances (id, host, version, parts) VALUES ($1, $2, $3, $4)
             ON CONFLICT (id) DO UPDATE SET seen_at = now()",
        )
        .bind(&self.instance)
        .bind(host)
        .bind(version)
        .bind(parts)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Takes this instance off the list, and with it those not seen for a day. Its sources stay known.
    pub async fn leave(&self) -> Result<(), sqlx::Error> {
        self.end_reports().await?;
        // Called at an orderly stop.
        sqlx::query("DELETE FROM dlo_instances WHERE id = $1 OR seen_at < now() - interval '1 day'")
            .bind(&self.instance)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// How many instances send letters home, we among them.
    pub async fn sending_instances(&self) -> Result<u32, sqlx::Error> {
        let mut loan = Lease::take(self).await?;
        // Called by the replay loop every few seconds.
        let others = sqlx::query_scalar::<_, i64>(
            "SELECT count(*) FROM dlo_instances
             WHERE 'replay' = ANY (parts) AND id <> $1 AND seen_at > now() - interval '1 minute'",
        )
        .bind(&self.instance)
        .fetch_one(loan.connection());
        let others = within(others).await?;
        loan.finish();
        Ok(u32::try_from(others).unwrap_or(0).saturating_add(1))
    }

    /// Letters by status and team. `None` when another instance is exporting them.
    pub async fn count_letters(&self) -> Result<Option<Vec<(String, String, i64)>>, sqlx::Error> {
        let mut txn = self.pool.begin().await?;
        // Called for the metric dlo_letters. The instance that has been there longest exports it.
        let ours: bool = sqlx::query_scalar(
            "SELECT coalesce((SELECT id = $1 FROM dlo_instances WHERE seen_at > now() - interval '1 minute'
                              ORDER BY started_at, id LIMIT 1), true)",
        )
        .bind(&self.instance)
        .fetch_one(&mut *txn)
        .await?;
        if !ours {
            return Ok(None);
        }
        sqlx::query("SET LOCAL statement_timeout = '20s'").execute(&mut *txn).await?;
        let counts = sqlx::query_as("SELECT status, coalesce(team, ''), count(*) FROM dead_letter_queue GROUP BY 1, 2")
            .fetch_all(&mut *txn)
            .await?;
        txn.commit().await?;
        Ok(Some(counts))
    }
}
