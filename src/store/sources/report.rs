//! What an instance says of its sources.

use std::time::Duration;

use serde::Serialize;
use sqlx::types::Json;

use super::Sighting;
use crate::store::{
    PgStore,
    lease::{Lease, within_for},
};

/// Said again before long.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// One source, as this instance sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub name: String,
    pub broker: String,
    pub broker_kind: &'static str,
    pub cluster_id: Option<String>,
    pub group_id: Option<String>,
    pub topics: Option<Vec<String>>,
    pub queue: Option<String>,
    pub waiting: Option<i64>,
    pub partitions: Vec<Sighting>,
    pub up: bool,
    pub trouble: Option<String>,
    /// How long ago a letter was stored, if this instance stored any.
    pub last_letter_seconds: Option<f64>,
}

impl PgStore {
    /// Says how the sources of this instance are. Sources that nobody has reported for a month are forgotten.
    pub async fn report_sources(&self, reports: &[Report]) -> Result<(), sqlx::Error> {
        let mut lease = Lease::take(self).await?;
        // Called every few seconds by each instance that captures.
        let said = sqlx::query(
            "WITH said AS (
                 SELECT * FROM jsonb_to_recordset($2) AS r (name text, broker text, broker_kind text, cluster_id text, group_id text,
                     topics text[], queue text, waiting bigint, partitions jsonb, up boolean, trouble text, last_letter_seconds float8)
             ), forgotten AS (
                 DELETE FROM dlo_sources WHERE instance <> $1 AND (reported_at < now() - interval '30 days'
                     OR reported_at < now() - interval '1 hour' AND name IN (SELECT name FROM said))
             )
             INSERT INTO dlo_sources AS s (name, instance, broker, broker_kind, cluster_id, group_id, topics, queue, waiting, partitions, up,
                 trouble, last_letter_at)
             SELECT name, $1, broker, broker_kind, cluster_id, group_id, topics, queue, waiting, partitions, up, trouble,
                    coalesce(now() - make_interval(secs => last_letter_seconds),
                             (SELECT max(last_letter_at) FROM dlo_sources before WHERE before.name = said.name))
             FROM said
             ON CONFLICT (name, instance) DO UPDATE SET broker = excluded.broker, broker_kind = excluded.broker_kind,
                 cluster_id = coalesce(excluded.cluster_id, s.cluster_id), group_id = excluded.group_id, topics = excluded.topics,
                 queue = excluded.queue, waiting = excluded.waiting, partitions = excluded.partitions, up = excluded.up,
                 trouble = excluded.trouble, running = true, last_letter_at = greatest(s.last_letter_at, excluded.last_letter_at),
                 reported_at = now()",
        )
        .bind(&self.instance)
        .bind(Json(reports))
        .execute(lease.connection());
        within_for(ANSWER_DEADLINE, said).await?;
        lease.finish();
        Ok(())
    }

    /// This instance says nothing more.
    pub(in crate::store) async fn end_reports(&self) -> Result<(), sqlx::Error> {
        // Called at an orderly stop.
        let end =
            sqlx::query("UPDATE dlo_sources SET running = false, up = false, trouble = 'stopped' WHERE instance = $1");
        end.bind(&self.instance).execute(&self.pool).await?;
        Ok(())
    }
}
