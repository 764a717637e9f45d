//! All sources, as people see them.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{FromRow, PgConnection};
use utoipa::ToSchema;

use super::{Said, around, group, said};
use crate::store::{PgStore, QueryError, reading::answered};

/// A source, over all instances that capture it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SourceView {
    pub name: String,
    /// The broker's name in the configuration.
    pub broker: String,
    /// `rabbitmq` or `kafka`.
    pub broker_kind: String,
    /// `up`; `partly`: an instance does not receive, or a partition is stopped; `down`: none receives; `away`: no
    /// instance has reported for 30 seconds.
    pub state: &'static str,
    /// Why it is not `up`.
    pub trouble: Option<String>,
    /// Messages that are not stored yet, as last seen.
    pub waiting: Option<i64>,
    pub last_letter_at: Option<DateTime<Utc>>,
    pub reported_at: DateTime<Utc>,
    /// Kafka: the consumer group.
    pub group: Option<String>,
    /// Kafka: the cluster's id.
    pub cluster: Option<String>,
    /// Kafka: as configured; `^` marks a regular expression.
    pub topics: Vec<String>,
    pub partitions: Vec<PartitionView>,
    pub queues: Vec<QueueView>,
    /// Those that run.
    pub instances: Vec<InstanceView>,
}

/// A partition of which the database has a position.
#[derive(Clone, Debug, FromRow, Serialize, ToSchema)]
pub struct PartitionView {
    #[serde(skip)]
    cluster_id: String,
    #[serde(skip)]
    group_id: String,
    pub topic: String,
    pub partition: i32,
    /// Raised when the topic was made anew.
    pub epoch: i32,
    /// The next offset to read.
    pub position: i64,
    /// The first offset that was to be read in this epoch.
    pub since: i64,
    /// Messages that were gone before they could be read.
    pub lost: i64,
    pub updated_at: DateTime<Utc>,
    /// The offset of the first message in the broker, as last seen; so `end`, the offset after the last one.
    #[sqlx(default)]
    pub first: Option<i64>,
    #[sqlx(default)]
    pub end: Option<i64>,
    #[sqlx(default)]
    pub waiting: Option<i64>,
    /// Its end is before our position: nothing is read until somebody sets the position.
    #[sqlx(default)]
    pub stopped: bool,
    /// Somebody set the group's offset to this before the partition was begun; dlo goes by its own position.
    #[sqlx(default)]
    pub group_reset_to: Option<i64>,
}

/// A queue.
#[derive(Clone, Debug, FromRow, Serialize, ToSchema)]
pub struct QueueView {
    #[serde(skip)]
    source: String,
    pub queue: String,
    #[sqlx(default)]
    pub waiting: Option<i64>,
    /// Channels of running instances that consume it.
    pub open_sessions: i64,
    /// Whose they are.
    pub instances: Vec<String>,
}

/// An instance that runs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct InstanceView {
    pub instance: String,
    pub up: bool,
    pub trouble: Option<String>,
    pub reported_at: DateTime<Utc>,
}

impl PgStore {
    /// All sources that instances have reported, by name.
    pub async fn sources(&self) -> Result<Vec<SourceView>, QueryError> {
        let mut reading = self.reading().await?;
        let said = said(reading.connection(), None).await?;
        let partitions = partitions(reading.connection()).await?;
        let queues = queues(reading.connection()).await?;
        Ok(said.chunk_by(|a, b| a.name == b.name).filter_map(|said| view(said, &partitions, &queues)).collect())
    }
}

async fn partitions(connection: &mut PgConnection) -> Result<Vec<PartitionView>, QueryError> {
    // Called by GET sources.
    let all = sqlx::query_as(
        "SELECT cluster_id, group_id, topic, partition, epoch, position, since, lost, updated_at FROM dlo_positions
         ORDER BY topic, partition",
    );
    answered(all.fetch_all(connection)).await
}

async fn queues(connection: &mut PgConnection) -> Result<Vec<QueueView>, QueryError> {
    // Called by GET sources. Sessions of instances that died stay open for ever.
    let all = sqlx::query_as(
        "SELECT e.source, e.queue, count(s.id) AS open_sessions,
                coalesce(array_agg(DISTINCT s.instance) FILTER (WHERE s.id IS NOT NULL), '{}') AS instances
         FROM dlo_queue_epochs e LEFT JOIN dlo_capture_sessions s ON s.source = e.source AND s.queue = e.queue AND s.closed_at IS NULL
              AND s.instance IN (SELECT id FROM dlo_instances WHERE seen_at > now() - interval '1 minute')
         GROUP BY 1, 2 ORDER BY 1, 2",
    );
    answered(all.fetch_all(connection)).await
}

fn view(said: &[Said], partitions: &[PartitionView], queues: &[QueueView]) -> Option<SourceView> {
    let newest = said.first()?.clone();
    let group = group(said);
    let of_group = |partition: &&PartitionView| group == Some((&partition.cluster_id, &partition.group_id));
    let seen = |partition: &PartitionView| partition.clone().seen_by(said);
    let partitions: Vec<PartitionView> = partitions.iter().filter(of_group).map(seen).collect();
    let queues = queues_of(&newest, queues);
    let waiting = partitions.iter().map(|one| one.waiting).chain(queues.iter().map(|one| one.waiting)).flatten();
    let (state, trouble) = state(said, &partitions);
    Some(SourceView {
        state,
        trouble,
        waiting: waiting.reduce(|a, b| a.saturating_add(b)),
        last_letter_at: said.iter().filter_map(|one| one.last_letter_at).max(),
        cluster: group.map(|(cluster, _)| cluster.to_owned()),
        group: newest.group_id,
        partitions,
        queues,
        instances: said.iter().filter(|one| one.fresh).map(InstanceView::from).collect(),
        name: newest.name,
        broker: newest.broker,
        broker_kind: newest.broker_kind,
        reported_at: newest.reported_at,
        topics: newest.topics.unwrap_or_default(),
    })
}

/// Those that were ever consumed, and the one that is to be.
fn queues_of(newest: &Said, queues: &[QueueView]) -> Vec<QueueView> {
    let mut own: Vec<QueueView> = queues.iter().filter(|queue| queue.source == newest.name).cloned().collect();
    let Some(name) = &newest.queue else { return own };
    match own.iter_mut().find(|queue| queue.queue == *name) {
        Some(queue) => queue.waiting = newest.waiting,
        None => own.push(QueueView {
            source: newest.name.clone(),
            queue: name.clone(),
            waiting: newest.waiting,
            open_sessions: 0,
            instances: Vec::new(),
        }),
    }
    own
}

fn state(said: &[Said], partitions: &[PartitionView]) -> (&'static str, Option<String>) {
    let fresh: Vec<&Said> = said.iter().filter(|one| one.fresh).collect();
    let why = |one: &Said| one.trouble.clone().unwrap_or_else(|| "not receiving".to_owned());
    let down: Vec<&Said> = fresh.iter().copied().filter(|one| !one.up).collect();
    let stopped = partitions.iter().filter(|partition| partition.stopped).count();
    match (fresh.len(), down.as_slice()) {
        (0, _) => ("away", Some("no instance reports it".to_owned())),
        (all, [first, ..]) if down.len() == all => ("down", Some(why(first))),
        (all, [first, ..]) => ("partly", Some(format!("{} of {all} instances: {}", down.len(), why(first)))),
        (_, []) if stopped > 0 => ("partly", Some(format!("partitions stopped: {stopped}; dlo sources seek decides"))),
        (_, []) => ("up", None),
    }
}

impl PartitionView {
    fn seen_by(mut self, said: &[Said]) -> Self {
        let around = around(said, (&self.topic, self.partition), self.position);
        (self.first, self.end) = (around.first, around.end);
        self.waiting = around.end.map(|end| (end - self.position.max(around.first.unwrap_or(0))).max(0));
        (self.stopped, self.group_reset_to) = (around.stopped, around.reset_to);
        self
    }
}

impl From<&Said> for InstanceView {
    fn from(said: &Said) -> Self {
        Self {
            instance: said.instance.clone(),
            up: said.up,
            trouble: said.trouble.clone(),
            reported_at: said.reported_at,
        }
    }
}
