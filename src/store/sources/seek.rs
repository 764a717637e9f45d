//! A position set by a person. Running instances notice it within seconds, and read from there.

use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use utoipa::ToSchema;

use super::{around, group, said};
use crate::store::{
    PgStore, QueryError,
    audit::{self, Entry},
    reading::answered,
};

/// Where to go.
#[derive(Clone, Copy, Debug)]
pub struct Seeking<'a> {
    pub source: &'a str,
    pub topic: &'a str,
    pub partition: i32,
    pub to: i64,
    /// Tell what it would mean, and change nothing.
    pub dry_run: bool,
}

/// What setting a position means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Seek {
    pub source: String,
    pub topic: String,
    pub partition: i32,
    pub epoch: i32,
    /// The position before.
    pub from: i64,
    pub to: i64,
    /// Messages that are captured a second time, at most: some offsets are no messages.
    pub captured_again: i64,
    /// Messages that are never captured, at most.
    pub skipped: i64,
    /// The offset of the first message in the broker, and the one after the last; null where no running instance tells:
    /// then `to` was not checked against them.
    pub first: Option<i64>,
    pub end: Option<i64>,
    pub changed: bool,
}

/// Why a position is not set.
#[derive(Debug, thiserror::Error)]
pub enum SeekError {
    #[error("there is no source {name:?}; there are: {known}")]
    NoSource { name: String, known: String },
    #[error("source {name:?} has not read topic {topic:?}; its topics are: {known}")]
    NoTopic { name: String, topic: String, known: String },
    #[error("source {name:?} has no position in partition {partition} of topic {topic:?}; its partitions are: {known}")]
    NoPartition { name: String, topic: String, partition: i32, known: String },
    #[error("source {0:?} is a RabbitMQ queue: only Kafka partitions have positions")]
    NotKafka(String),
    #[error("source {0:?} has not reached its Kafka cluster yet, so its positions are not known; dlo sources says why")]
    NotJoined(String),
    #[error("{0} is no offset: offsets begin at 0")]
    Negative(i64),
    #[error("{to} is before the first message of {place}: the oldest that the broker still has is at {first}")]
    BeforeFirst { place: String, to: i64, first: i64 },
    #[error("{to} is beyond the end of {place}, which was at {end} a moment ago: nothing would be read")]
    BeyondEnd { place: String, to: i64, end: i64 },
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl PgStore {
    /// Sets a position, or tells what that would mean.
    pub async fn seek(&self, seeking: &Seeking<'_>, actor: &str) -> Result<Seek, SeekError> {
        if seeking.to < 0 {
            return Err(SeekError::Negative(seeking.to));
        }
        let mut txn = self.changing().await?;
        let said = said(&mut txn, Some(seeking.source)).await?;
        let name = seeking.source.to_owned();
        let Some(newest) = said.first() else {
            return Err(SeekError::NoSource { name, known: source_names(&mut txn).await? });
        };
        let Some(group) = group(&said) else {
            let is_kafka = newest.broker_kind == "kafka";
            return Err(if is_kafka { SeekError::NotJoined(name) } else { SeekError::NotKafka(name) });
        };
        let Some((epoch, from)) = position(&mut txn, group, seeking).await? else {
            return Err(unknown(&mut txn, group, seeking).await?);
        };
        // What nobody looks at any more may have gone on.
        let around = around(said.iter().filter(|one| one.fresh), (seeking.topic, seeking.partition), from);
        // What we have read is there, though nobody has looked since.
        let end = around.end.map(|end| if around.stopped { end } else { end.max(from) });
        let seek = seeking.meaning(epoch, from, (around.first, end))?;
        if seeking.dry_run || seek.from == seek.to {
            return Ok(seek);
        }
        set(&mut txn, group, seeking).await?;
        let details = json!({
            "source": seek.source, "topic": seek.topic, "partition": seek.partition, "epoch": epoch,
            "from": from, "to": seek.to, "captured_again": seek.captured_again, "skipped": seek.skipped,
        });
        answered(audit::record(&mut txn, Entry { actor, action: "sources seek", letters: &[], details })).await?;
        answered(txn.commit()).await?;
        Ok(Seek { changed: true, ..seek })
    }
}

impl Seeking<'_> {
    fn meaning(&self, epoch: i32, from: i64, (first, end): (Option<i64>, Option<i64>)) -> Result<Seek, SeekError> {
        let place = || format!("{}/{}", self.topic, self.partition);
        if let Some(first) = first.filter(|first| self.to < *first) {
            return Err(SeekError::BeforeFirst { place: place(), to: self.to, first });
        }
        if let Some(end) = end.filter(|end| self.to > *end) {
            return Err(SeekError::BeyondEnd { place: place(), to: self.to, end });
        }
        Ok(Seek {
            source: self.source.to_owned(),
            topic: self.topic.to_owned(),
            partition: self.partition,
            epoch,
            from,
            to: self.to,
            captured_again: (from.min(end.unwrap_or(from)) - self.to).max(0),
            skipped: (self.to - from.max(first.unwrap_or(from))).max(0),
            first,
            end,
            changed: false,
        })
    }
}

/// Epoch and position, which nobody else moves until the transaction ends. One row: whoever moves several takes them in
/// one order, and waits for us at most.
async fn position(
    connection: &mut PgConnection,
    (cluster, group): (&str, &str),
    seeking: &Seeking<'_>,
) -> Result<Option<(i32, i64)>, QueryError> {
    // Called by POST sources/{name}/seek.
    let row = sqlx::query_as(
        "SELECT epoch, position FROM dlo_positions WHERE cluster_id = $1 AND group_id = $2 AND topic = $3 AND partition = $4
         FOR NO KEY UPDATE",
    );
    let row = row.bind(cluster).bind(group).bind(seeking.topic).bind(seeking.partition);
    answered(row.fetch_optional(connection)).await
}

async fn set(
    connection: &mut PgConnection,
    (cluster, group): (&str, &str),
    seeking: &Seeking<'_>,
) -> Result<(), QueryError> {
    // Called by POST sources/{name}/seek. A database that has forgotten the partition begins where it was ever to be read.
    let set = sqlx::query(
        "UPDATE dlo_positions SET position = $5, since = least(since, $5), updated_at = now()
         WHERE cluster_id = $1 AND group_id = $2 AND topic = $3 AND partition = $4",
    );
    let set = set.bind(cluster).bind(group).bind(seeking.topic).bind(seeking.partition).bind(seeking.to);
    answered(set.execute(connection)).await.map(drop)
}

async fn source_names(connection: &mut PgConnection) -> Result<String, QueryError> {
    // Called when a source is not known.
    let names = sqlx::query_scalar::<_, String>("SELECT DISTINCT name FROM dlo_sources ORDER BY 1");
    Ok(list(&answered(names.fetch_all(connection)).await?))
}

async fn unknown(
    connection: &mut PgConnection,
    (cluster, group): (&str, &str),
    seeking: &Seeking<'_>,
) -> Result<SeekError, QueryError> {
    // Called when a partition is not known.
    let all = sqlx::query_as::<_, (String, i32)>(
        "SELECT topic, partition FROM dlo_positions WHERE cluster_id = $1 AND group_id = $2 ORDER BY 1, 2",
    );
    let all = answered(all.bind(cluster).bind(group).fetch_all(connection)).await?;
    let (name, topic) = (seeking.source.to_owned(), seeking.topic.to_owned());
    let partitions: Vec<String> =
        all.iter().filter(|(other, _)| *other == topic).map(|(_, number)| number.to_string()).collect();
    if partitions.is_empty() {
        let mut topics: Vec<String> = all.into_iter().map(|(topic, _)| topic).collect();
        topics.dedup();
        return Ok(SeekError::NoTopic { name, topic, known: list(&topics) });
    }
    Ok(SeekError::NoPartition { name, topic, partition: seeking.partition, known: list(&partitions) })
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
}
