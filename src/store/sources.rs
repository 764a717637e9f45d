//! What is captured from: what instances report of their sources ([`report`]), what people see of it ([`list`]), and a
//! position set by a person ([`seek`]).

mod list;
mod report;
mod seek;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, PgConnection, types::Json};

pub use self::{
    list::{InstanceView, PartitionView, QueueView, SourceView},
    report::Report,
    seek::{Seek, SeekError, Seeking},
};
use super::{QueryError, reading::answered};

/// A partition as an instance saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    pub topic: String,
    pub partition: i32,
    /// Offset of the first message.
    pub first: Option<i64>,
    /// The offset after the last message.
    pub end: Option<i64>,
    /// Nothing is read while the position is this one.
    pub stopped_at: Option<i64>,
    /// Where somebody set the group's offset.
    pub reset_to: Option<i64>,
}

/// What one instance said of one source.
#[derive(Clone, Debug, FromRow)]
struct Said {
    name: String,
    instance: String,
    broker: String,
    broker_kind: String,
    cluster_id: Option<String>,
    group_id: Option<String>,
    topics: Option<Vec<String>>,
    queue: Option<String>,
    waiting: Option<i64>,
    partitions: Json<Vec<Sighting>>,
    up: bool,
    trouble: Option<String>,
    last_letter_at: Option<DateTime<Utc>>,
    reported_at: DateTime<Utc>,
    /// The instance runs, as far as anybody knows.
    fresh: bool,
}

/// All that was said, of one source or of all; of each source the newest first.
async fn said(connection: &mut PgConnection, source: Option<&str>) -> Result<Vec<Said>, QueryError> {
    // Called by GET sources and POST sources/{name}/seek. An instance reports every 5 seconds.
    let rows = sqlx::query_as(
        "SELECT name, instance, broker, broker_kind, cluster_id, group_id, topics, queue, waiting, partitions, up, trouble,
                last_letter_at, reported_at, running AND reported_at > now() - interval '30 seconds' AS fresh
         FROM dlo_sources WHERE $1::text IS NULL OR name = $1 ORDER BY name, running DESC, reported_at DESC, instance",
    );
    answered(rows.bind(source).fetch_all(connection)).await
}

/// Whose positions a source's are, as `(cluster, group)`. An instance that has not joined yet does not know its cluster.
fn group(said: &[Said]) -> Option<(&str, &str)> {
    let newest = said.first()?;
    let same = said.iter().filter(|one| one.broker == newest.broker && one.group_id == newest.group_id);
    let cluster = same.filter_map(|one| one.cluster_id.as_deref()).next()?;
    Some((cluster, newest.group_id.as_deref()?))
}

/// What is known of a partition beside its position.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    first: Option<i64>,
    end: Option<i64>,
    stopped: bool,
    reset_to: Option<i64>,
}

/// All instances see how far a partition goes; why it is not read is known to the one that owns it.
fn around<'a>(said: impl IntoIterator<Item = &'a Said>, (topic, partition): (&str, i32), position: i64) -> Around {
    let mut around = Around::default();
    for one in said {
        let seen = one.partitions.0.iter().find(|seen| seen.topic == topic && seen.partition == partition);
        let Some(seen) = seen else { continue };
        around.first = around.first.or(seen.first);
        around.end = around.end.or(seen.end);
        around.stopped |= seen.stopped_at == Some(position);
        // It is ours again as soon as an instance has committed.
        let reset = seen.reset_to.filter(|offset| one.fresh && *offset != position);
        around.reset_to = around.reset_to.or(reset);
    }
    around
}
