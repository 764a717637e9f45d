//! Positions of Kafka partitions, and the name of this installation.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde::Deserialize;
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

use super::{
    PgStore,
    lease::{Lease, within},
};
use crate::source::{
    LedgerError, Partition, PositionLedger,
    positions::{At, Group, Known, Move, Moved},
};

/// The statement that makes these steps, to be sent with its COMMIT.
pub(super) fn move_sql(group: &Group, moves: &[Move]) -> String {
    fn list<T: std::fmt::Display>(values: impl Iterator<Item = T>, kind: &str) -> String {
        let values: Vec<String> = values.map(|value| value.to_string()).collect();
        format!("ARRAY[{}]::{kind}[]", values.join(","))
    }
    let arguments = [
        literal(&group.cluster),
        literal(&group.name),
        list(moves.iter().map(|step| literal(&step.partition.topic)), "text"),
        list(moves.iter().map(|step| step.partition.number), "int"),
        list(moves.iter().map(|step| step.from.epoch), "int"),
        list(moves.iter().map(|step| step.from.offset), "bigint"),
        list(moves.iter().map(|step| step.first), "bigint"),
        list(moves.iter().map(|step| step.to), "bigint"),
    ];
    format!("SELECT dlo_positions_move({})", arguments.join(", "))
}

/// A string for a statement that takes no parameters, whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''").replace('\0', ""))
}

/// What a refused move says in its detail.
pub(super) fn moved(error: &sqlx::Error) -> Option<Vec<Moved>> {
    #[derive(Deserialize)]
    struct Place {
        topic: String,
        partition: i32,
        epoch: Option<i32>,
        position: Option<i64>,
    }
    let error = error.as_database_error()?.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()?;
    let places: Vec<Place> = serde_json::from_str(error.detail()?).ok()?;
    let moved = places.into_iter().map(|place| Moved {
        partition: Partition { topic: place.topic.into(), number: place.partition },
        at: place.epoch.zip(place.position).map(|(epoch, offset)| At { epoch, offset }),
    });
    Some(moved.collect())
}

fn known(row: &PgRow) -> Result<Known, sqlx::Error> {
    Ok(Known {
        at: At { epoch: row.try_get("epoch")?, offset: row.try_get("position")? },
        topic_id: row.try_get("topic_id")?,
        since: row.try_get("since")?,
    })
}

fn failed(error: sqlx::Error) -> LedgerError {
    LedgerError(Box::new(error))
}

impl PgStore {
    async fn load_positions(&self, group: &Group) -> Result<BTreeMap<Partition, Known>, sqlx::Error> {
        let mut lease = Lease::take(self).await?;
        // Called when partitions are assigned, and every few seconds to notice positions set by others.
        let rows = sqlx::query(
            "SELECT topic, partition, epoch, topic_id, position, since FROM dlo_positions WHERE cluster_id = $1 AND group_id = $2",
        )
        .bind(&group.cluster)
        .bind(&group.name)
        .fetch_all(lease.connection());
        let rows = within(rows).await?;
        lease.finish();
        let mut topics: BTreeMap<String, Arc<str>> = BTreeMap::new();
        rows.iter()
            .map(|row| {
                let topic: String = row.try_get("topic")?;
                let topic = Arc::clone(topics.entry(topic.clone()).or_insert_with(|| topic.into()));
                Ok((Partition { topic, number: row.try_get("partition")? }, known(row)?))
            })
            .collect()
    }

    async fn compare_and_set(
        &self,
        group: &Group,
        partition: &Partition,
        expected: Option<At>,
        new: &Known,
        lost: i64,
    ) -> Result<Known, sqlx::Error> {
        let mut lease = Lease::take(self).await?;
        // Called when a partition is read for the first time, made anew, or has gaps: rarely.
        let set = match expected {
            None => sqlx::query(
                "INSERT INTO dlo_positions (cluster_id, group_id, topic, partition, epoch, topic_id, position, since, lost)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
            ),
            Some(_) => sqlx::query(
                "UPDATE dlo_positions SET epoch = $5, topic_id = $6, position = $7, since = $8, lost = lost + $9, updated_at = now()
                 WHERE cluster_id = $1 AND group_id = $2 AND topic = $3 AND partition = $4 AND epoch = $10 AND position = $11",
            ),
        };
        let mut set = set
            .bind(&group.cluster)
            .bind(&group.name)
            .bind(&*partition.topic)
            .bind(partition.number)
            .bind(new.at.epoch)
            .bind(new.topic_id)
            .bind(new.at.offset)
            .bind(new.since)
            .bind(lost);
        if let Some(expected) = expected {
            set = set.bind(expected.epoch).bind(expected.offset);
        }
        within(set.execute(lease.connection())).await?;
        let row = sqlx::query(
            "SELECT epoch, topic_id, position, since FROM dlo_positions
             WHERE cluster_id = $1 AND group_id = $2 AND topic = $3 AND partition = $4",
        )
        .bind(&group.cluster)
        .bind(&group.name)
        .bind(&*partition.topic)
        .bind(partition.number)
        .fetch_one(lease.connection());
        let row = within(row).await?;
        lease.finish();
        known(&row)
    }
}

#[async_trait]
impl PositionLedger for PgStore {
    async fn installation(&self) -> Result<Uuid, LedgerError> {
        let mut lease = Lease::take(self).await.map_err(failed)?;
        // Called once, before a consumer group is joined.
        let id = sqlx::query_scalar("SELECT id FROM dlo_installation").fetch_one(lease.connection());
        let id = within(id).await.map_err(failed)?;
        lease.finish();
        Ok(id)
    }

    async fn positions(&self, group: &Group) -> Result<BTreeMap<Partition, Known>, LedgerError> {
        self.load_positions(group).await.map_err(failed)
    }

    async fn set_position(
        &self,
        group: &Group,
        partition: &Partition,
        expected: Option<At>,
        new: &Known,
        lost: i64,
    ) -> Result<Known, LedgerError> {
        self.compare_and_set(group, partition, expected, new, lost).await.map_err(failed)
    }
}
