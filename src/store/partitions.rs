//! Partitions of the table by month of capture, made ahead; and what retention removes.

use std::time::Duration;

use chrono::{DateTime, Datelike, Months, NaiveDate, Utc};
use sqlx::{Connection, Executor, PgConnection};

use super::PgStore;

/// Partitions kept ready beyond the current month.
pub const MONTHS_AHEAD: u32 = 3;

/// What a round of maintenance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    pub created: usize,
    /// Rows moved out of the default partition.
    pub moved: u64,
    /// Closed letters removed because they are older than the retention.
    pub removed: u64,
    pub dropped: usize,
}

/// First days of the months from `now`'s to `MONTHS_AHEAD` later.
fn months(now: DateTime<Utc>) -> impl Iterator<Item = (NaiveDate, NaiveDate)> {
    let first = now.date_naive().with_day(1).unwrap_or_else(|| now.date_naive());
    (0..=MONTHS_AHEAD).map(move |ahead| (first + Months::new(ahead), first + Months::new(ahead + 1)))
}

impl PgStore {
    /// One round: partitions ahead, default partition emptied, settled sessions and old closed letters removed.
    ///
    /// Attaching and dropping lock the parent. They give up after a moment rather than stand in capture's way, and
    /// the next round tries again.
    pub async fn maintain(&self, now: DateTime<Utc>, retention: Option<Duration>) -> Result<Maintained, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        // One instance at a time; the others have nothing to do.
        let mut txn = connection.begin().await?;
        if !sqlx::query_scalar::<_, bool>("SELECT pg_try_advisory_xact_lock(hashtext('dlo_maintenance'))")
            .fetch_one(&mut *txn)
            .await?
        {
            return Ok(Maintained::default());
        }
        let mut done = Maintained::default();
        for (from, to) in months(now) {
            let (created, moved) = ensure(&mut txn, from, to).await?;
            done.created += usize::from(created);
            done.moved += moved;
        }
        txn.commit().await?;
        forget_sessions(&mut connection, now).await?;
        if let Some(retention) = retention {
            let before = now - chrono::Duration::from_std(retention).unwrap_or(chrono::Duration::MAX);
            done.removed = remove_closed(&mut connection, before).await?;
            done.dropped = drop_empty(&mut connection, before).await?;
        }
        Ok(done)
    }
}

/// Capture sessions that nothing can come again from: closed, with every ack known to have arrived.
async fn forget_sessions(connection: &mut PgConnection, now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    // Called by maintenance. A day is for people who look into what happened.
    sqlx::query("DELETE FROM dlo_capture_sessions WHERE closed_at < $1 AND floor_id >= ceiling_id")
        .bind(now - chrono::Duration::days(1))
        .execute(connection)
        .await?;
    Ok(())
}

fn name(from: NaiveDate) -> String {
    format!("dead_letter_queue_{}", from.format("%Y_%m"))
}

/// Makes the partition for `from..to` unless it is there, taking along what the default partition caught for it.
async fn ensure(connection: &mut PgConnection, from: NaiveDate, to: NaiveDate) -> Result<(bool, u64), sqlx::Error> {
    let name = name(from);
    // With their offset: a bare date means midnight of whatever time zone the session has, and partitions made in two
    // zones overlap.
    let (from, to) = (format!("{from} 00:00:00+00"), format!("{to} 00:00:00+00"));
    if sqlx::query_scalar::<_, bool>("SELECT to_regclass($1) IS NOT NULL")
        .bind(&name)
        .fetch_one(&mut *connection)
        .await?
    {
        return Ok((false, 0));
    }
    let mut savepoint = connection.begin().await?;
    // Called by maintenance. A table is made and filled on the side; only the attaching needs the parent.
    let make = format!(
        "SET LOCAL lock_timeout = '2s';
         CREATE TABLE {name} (LIKE dead_letter_queue INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMPRESSION);
         LOCK TABLE dead_letter_queue_default IN ACCESS EXCLUSIVE MODE;"
    );
    savepoint.execute(make.as_str()).await?;
    let moved = sqlx::query(&format!(
        "WITH caught AS (DELETE FROM dead_letter_queue_default WHERE created_at >= '{from}' AND created_at < '{to}' RETURNING *)
         INSERT INTO {name} SELECT * FROM caught"
    ))
    .execute(&mut *savepoint)
    .await?
    .rows_affected();
    let attach =
        format!("ALTER TABLE dead_letter_queue ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}')");
    savepoint.execute(attach.as_str()).await?;
    savepoint.commit().await?;
    Ok((true, moved))
}

const OPEN: &str = "('FAILED', 'PENDING_RETRY', 'REPLAYING', 'DEAD')";

/// Removes closed letters captured before `before`, in pieces small enough to wait for nobody.
async fn remove_closed(connection: &mut PgConnection, before: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    let mut removed = 0;
    loop {
        // Called by maintenance.
        let piece = sqlx::query(&format!(
            "DELETE FROM dead_letter_queue d USING (
                 SELECT id, created_at FROM dead_letter_queue WHERE created_at < $1 AND status NOT IN {OPEN} LIMIT 5000
             ) old WHERE d.id = old.id AND d.created_at = old.created_at AND d.created_at < $1 AND d.status NOT IN {OPEN}"
        ))
        .bind(before)
        .execute(&mut *connection)
        .await?
        .rows_affected();
        removed += piece;
        if piece < 5000 {
            return Ok(removed);
        }
    }
}

/// Drops monthly partitions that ended before `before` and hold nothing any more. Open letters keep theirs.
async fn drop_empty(connection: &mut PgConnection, before: DateTime<Utc>) -> Result<usize, sqlx::Error> {
    // Called by maintenance.
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'dead_letter_queue'::regclass AND c.relname ~ '^dead_letter_queue_[0-9]{4}_[0-9]{2}$' ORDER BY 1",
    )
    .fetch_all(&mut *connection)
    .await?;
    let current = name(before.date_naive().with_day(1).unwrap_or_default());
    let mut dropped = 0;
    for name in names.into_iter().filter(|name| *name < current) {
        dropped += usize::from(drop_if_empty(connection, &name).await?);
    }
    Ok(dropped)
}

async fn drop_if_empty(connection: &mut PgConnection, name: &str) -> Result<bool, sqlx::Error> {
    let empty = format!("SELECT NOT EXISTS (SELECT FROM {name})");
    if !sqlx::query_scalar::<_, bool>(&empty).fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    // Looked at once more under the lock: a service may insert a row with a time of its own.
    let mut txn = connection.begin().await?;
    let lock = format!("SET LOCAL lock_timeout = '2s'; LOCK TABLE dead_letter_queue, {name} IN ACCESS EXCLUSIVE MODE");
    txn.execute(lock.as_str()).await?;
    let still: bool = sqlx::query_scalar(&empty).fetch_one(&mut *txn).await?;
    if still {
        txn.execute(format!("DROP TABLE {name}").as_str()).await?;
    }
    txn.commit().await?;
    Ok(still)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_whole_and_follow_each_other_over_new_year() {
        let now = "2026-11-30T23:59:59Z".parse().expect("a time");
        let all: Vec<_> = months(now).map(|(from, to)| format!("{from}..{to}")).collect();
        assert_eq!(
            all,
            ["2026-11-01..2026-12-01", "2026-12-01..2027-01-01", "2027-01-01..2027-02-01", "2027-02-01..2027-03-01"]
        );
    }
}
