//! The replay queue: attempts are leased, published, and recorded.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value as Json;
use sqlx::Row;
use uuid::Uuid;

use super::{
    PgStore,
    lease::{Lease as Loan, copy_deadline, within_for},
};
use crate::{
    dead_letter::{CapturedFrom, Origin, PayloadState, Status},
    dialect::{self, Known, Publish, Target},
    message::{RawMessage, Text, wire},
    policy::moves,
};

/// The database answers within this, or is taken for gone: no wait of the replay loop is without an end.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);

/// The right to make one attempt, until it runs out.
#[derive(Clone, Debug)]
pub struct Lease {
    pub replay: i64,
    pub letter: i64,
    pub token: Uuid,
    pub source: Option<String>,
    pub target: Json,
    letter_created_at: DateTime<Utc>,
    /// What the letter takes in memory, about.
    pub bytes: usize,
}

/// A letter as it has to be sent.
#[derive(Debug)]
pub struct Letter {
    pub dialect: Option<String>,
    pub broker: Option<String>,
    pub origin: Origin,
    pub captured: CapturedFrom,
    /// Column `payload_state` says so.
    pub is_tombstone: bool,
    /// The message, or why it cannot be rebuilt from its columns.
    pub message: Result<RawMessage, String>,
}

impl Letter {
    /// The publish that sends it to `target`, or why there is none.
    pub fn home(self, target: &Target) -> Result<Publish, String> {
        let known = Known {
            dialect: self.dialect.as_deref(),
            captured: &self.captured,
            origin: &self.origin,
            is_tombstone: self.is_tombstone,
        };
        dialect::home(known, self.message?, target).map_err(|error| error.to_string())
    }
}

/// What is recorded of an attempt.
#[derive(Debug)]
pub struct Record {
    pub replay: i64,
    pub exchange: Option<String>,
    pub routing_key: Option<String>,
    pub end: End,
}

/// How an attempt ended, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Routed,
    Unroutable(String),
    Refused(String),
    InDoubt(String),
    /// Nothing was sent; it may be tried again.
    NotSent(String),
}

impl End {
    /// Column `verdict`, or the state that has none.
    #[must_use]
    pub fn verdict(&self) -> Option<&'static str> {
        match self {
            Self::Routed => Some("ROUTED"),
            Self::Unroutable(_) => Some("UNROUTABLE"),
            Self::Refused(_) => Some("REFUSED"),
            Self::InDoubt(_) | Self::NotSent(_) => None,
        }
    }

    fn state(&self) -> &'static str {
        match self {
            Self::Routed | Self::Unroutable(_) | Self::Refused(_) => "DONE",
            Self::InDoubt(_) => "IN_DOUBT",
            Self::NotSent(_) => "PENDING",
        }
    }

    fn letter(&self) -> Status {
        match self {
            Self::Routed => Status::Replayed,
            // Neither is what failed on its way any more, nor what waits for a broker.
            _ => Status::Failed,
        }
    }

    fn error(&self) -> Option<&str> {
        match self {
            Self::Routed => None,
            Self::Unroutable(why) | Self::Refused(why) | Self::InDoubt(why) | Self::NotSent(why) => Some(why),
        }
    }
}

impl PgStore {
    /// Whether an attempt waits for `broker`.
    pub async fn is_waiting(&self, broker: &str) -> Result<bool, sqlx::Error> {
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop while the broker is away.
        let waiting = sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM dlo_replays r
                 JOIN dead_letter_queue d ON d.id = r.letter_id AND d.created_at = r.letter_created_at
                 WHERE r.state = 'PENDING' AND d.broker = $1)",
        )
        .bind(broker)
        .fetch_one(loan.connection());
        let waiting = within_for(ANSWER_DEADLINE, waiting).await?;
        loan.finish();
        Ok(waiting)
    }

    /// Leases up to `limit` attempts for `lease`. Their letters become REPLAYING; an attempt for a letter that may no
    /// longer be sent (discarded meanwhile) is refused here.
    ///
    /// Only those `after` an id: an index keeps what was claimed before until nobody can see it any more, and from the
    /// start each claim would walk through all of that.
    ///
    /// After an error they may be leased all the same: see [`PgStore::give_back`].
    pub async fn claim(
        &self,
        broker: &str,
        after: i64,
        limit: i64,
        lease: Duration,
    ) -> Result<Vec<Lease>, sqlx::Error> {
        let may: Vec<&str> = Status::ALL
            .into_iter()
            .filter(|s| moves::may_replay(*s) || *s == Status::Replaying)
            .map(Status::as_str)
            .collect();
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop. SKIP LOCKED: any number of instances may ask at once.
        let rows = sqlx::query(
            "WITH due AS (
                 SELECT r.id, r.letter_id, r.letter_created_at, d.status, octet_length(d.body) AS bytes
                 FROM dlo_replays r JOIN dead_letter_queue d ON d.id = r.letter_id AND d.created_at = r.letter_created_at
                 WHERE r.state = 'PENDING' AND r.id > $6 AND d.broker = $1
                 ORDER BY r.id LIMIT $2 FOR UPDATE OF r SKIP LOCKED
             ), refused AS (
                 UPDATE dlo_replays r SET state = 'DONE', verdict = 'REFUSED', done_at = now(),
                        error = 'the letter is ' || due.status || ' since the replay was asked for'
                 FROM due WHERE r.id = due.id AND due.status <> ALL ($3)
             ), leased AS (
                 UPDATE dlo_replays r SET state = 'LEASED', instance = $4, leased_at = now(), lease_until = now() + $5
                 FROM due WHERE r.id = due.id AND due.status = ANY ($3)
                 RETURNING r.id, r.letter_id, r.letter_created_at, r.token, r.source, r.target, due.bytes
             ), marked AS (
                 UPDATE dead_letter_queue d SET status = 'REPLAYING', resolved_by = NULL FROM leased
                 WHERE d.id = leased.letter_id AND d.created_at = leased.letter_created_at
             )
             SELECT * FROM leased ORDER BY id",
        )
        .bind(broker)
        .bind(limit)
        .bind(may)
        .bind(&self.instance)
        .bind(lease)
        .bind(after)
        .fetch_all(loan.connection());
        let rows = within_for(ANSWER_DEADLINE, rows).await?;
        loan.finish();
        rows.into_iter()
            .map(|row| {
                Ok(Lease {
                    replay: row.try_get("id")?,
                    letter: row.try_get("letter_id")?,
                    letter_created_at: row.try_get("letter_created_at")?,
                    token: row.try_get("token")?,
                    source: row.try_get("source")?,
                    target: row.try_get("target")?,
                    bytes: usize::try_from(row.try_get::<Option<i32>, _>("bytes")?.unwrap_or(0)).unwrap_or(0) + 2048,
                })
            })
            .collect()
    }

    /// Attempts at `broker` that this instance has leased but does not have `in_hand`: the answer to a claim got lost.
    /// Nothing was sent of them, so they wait again.
    pub async fn give_back(&self, broker: &str, in_hand: &[i64]) -> Result<u64, sqlx::Error> {
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop after a claim that failed.
        let back = sqlx::query_scalar::<_, i64>(
            "WITH back AS (
                 UPDATE dlo_replays r SET state = 'PENDING', instance = NULL, leased_at = NULL, lease_until = NULL
                 FROM dead_letter_queue d
                 WHERE d.id = r.letter_id AND d.created_at = r.letter_created_at AND d.broker = $1
                   AND r.state = 'LEASED' AND r.instance = $2 AND r.id <> ALL ($3) AND r.lease_until > now()
                 RETURNING r.letter_id, r.letter_created_at
             ), failed AS (
                 UPDATE dead_letter_queue d SET status = CASE WHEN d.status = 'REPLAYING' THEN 'FAILED' ELSE d.status END
                 FROM back WHERE d.id = back.letter_id AND d.created_at = back.letter_created_at
             )
             SELECT count(*) FROM back",
        )
        .bind(broker)
        .bind(&self.instance)
        .bind(in_hand)
        .fetch_one(loan.connection());
        let back = within_for(ANSWER_DEADLINE, back).await?;
        loan.finish();
        Ok(back.unsigned_abs())
    }

    /// The letters of `leases`, in their order. Bodies are large: ask for a few at a time.
    pub async fn load(&self, leases: &[Lease]) -> Result<Vec<Option<Letter>>, sqlx::Error> {
        let ids: Vec<i64> = leases.iter().map(|lease| lease.letter).collect();
        let created: Vec<DateTime<Utc>> = leases.iter().map(|lease| lease.letter_created_at).collect();
        let bytes = leases.iter().map(|lease| lease.bytes).sum();
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop for leased attempts.
        let sql = format!(
            "SELECT d.id, {SENT_COLUMNS}
             FROM unnest($1::bigint[], $2::timestamptz[]) AS asked (id, created_at)
             JOIN dead_letter_queue d ON d.id = asked.id AND d.created_at = asked.created_at"
        );
        let rows = sqlx::query(&sql).bind(&ids).bind(&created).fetch_all(loan.connection());
        let rows = within_for(copy_deadline(bytes), rows).await?;
        loan.finish();
        let mut letters: std::collections::HashMap<i64, Letter> =
            rows.iter().map(|row| Ok((row.try_get("id")?, letter(row)?))).collect::<Result<_, sqlx::Error>>()?;
        Ok(ids.iter().map(|id| letters.remove(id)).collect())
    }

    /// Records how attempts ended, and returns of how many it did. A lease that has run out records nothing any more:
    /// its attempt is in doubt already. Nor does one whose message has come back meanwhile.
    pub async fn record(&self, records: &[Record]) -> Result<usize, sqlx::Error> {
        // Always in the same order, or two statements could wait for each other.
        let mut records: Vec<&Record> = records.iter().collect();
        records.sort_unstable_by_key(|record| record.replay);
        let column = |f: fn(&Record) -> Option<&str>| records.iter().map(|record| f(record)).collect::<Vec<_>>();
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop when the broker has answered. The status of the letter is looked at in the SET and
        // not in the WHERE, where it would tempt the planner to walk through all letters under way for each of these.
        let ended = sqlx::query_scalar::<_, i64>(
            "WITH ended AS (
                 UPDATE dlo_replays r
                 SET state = e.state, verdict = e.verdict, error = e.error, sent_exchange = e.exchange, sent_routing_key = e.routing_key,
                     done_at = CASE WHEN e.state = 'PENDING' THEN NULL ELSE now() END, lease_until = NULL
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
                      AS e (id, state, verdict, error, exchange, routing_key, letter)
                 WHERE r.id = e.id AND r.state = 'LEASED' AND r.instance = $8 AND r.lease_until > now()
                 RETURNING r.letter_id, r.letter_created_at, e.letter, e.state, r.id AS replay
             ), letters AS (
                 UPDATE dead_letter_queue d
                 SET status = CASE WHEN d.status = 'REPLAYING' THEN ended.letter ELSE d.status END,
                     notes = CASE WHEN ended.state = 'IN_DOUBT' THEN coalesce(d.notes, '{}') || jsonb_build_object('in_doubt', ended.replay)
                                  ELSE d.notes END
                 FROM ended WHERE d.id = ended.letter_id AND d.created_at = ended.letter_created_at
             )
             SELECT count(*) FROM ended",
        )
        .bind(records.iter().map(|r| r.replay).collect::<Vec<_>>())
        .bind(column(|r| Some(r.end.state())))
        .bind(column(|r| r.end.verdict()))
        .bind(column(|r| r.end.error()))
        .bind(column(|r| r.exchange.as_deref()))
        .bind(column(|r| r.routing_key.as_deref()))
        .bind(column(|r| Some(r.end.letter().as_str())))
        .bind(&self.instance)
        .fetch_one(loan.connection());
        let ended = within_for(ANSWER_DEADLINE, ended).await?;
        loan.finish();
        Ok(usize::try_from(ended).unwrap_or(0))
    }

    /// Attempts whose lease ran out: nobody knows whether they were sent. Returns how many there were.
    pub async fn expire_leases(&self) -> Result<u64, sqlx::Error> {
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop now and then, whichever instance held the lease.
        let expired = sqlx::query_scalar::<_, i64>(
            "WITH due AS (
                 SELECT id FROM dlo_replays WHERE state = 'LEASED' AND lease_until <= now()
                 ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED
             ), expired AS (
                 UPDATE dlo_replays r SET state = 'IN_DOUBT', done_at = now(), lease_until = NULL,
                        error = 'the instance that sent it stopped before it recorded an outcome'
                 FROM due WHERE r.id = due.id
                 RETURNING r.id, r.letter_id, r.letter_created_at
             ), letters AS (
                 UPDATE dead_letter_queue d
                 SET status = CASE WHEN d.status = 'REPLAYING' THEN 'FAILED' ELSE d.status END,
                     notes = coalesce(d.notes, '{}') || jsonb_build_object('in_doubt', expired.id)
                 FROM expired WHERE d.id = expired.letter_id AND d.created_at = expired.letter_created_at
             )
             SELECT count(*) FROM expired",
        )
        .fetch_one(loan.connection());
        let expired = within_for(ANSWER_DEADLINE, expired).await?;
        loan.finish();
        Ok(expired.unsigned_abs())
    }

    /// Letters whose replay did not come back within `window` count as resolved, on that ground. Returns how many; some
    /// may be left.
    pub async fn resolve_quiet(&self, window: Duration) -> Result<u64, sqlx::Error> {
        let mut loan = Loan::take(self).await?;
        // Called by the replay loop now and then. SKIP LOCKED: what is locked is just coming back.
        let resolved = sqlx::query(
            "WITH quiet AS (
                 SELECT d.id, d.created_at FROM dead_letter_queue d
                 WHERE d.status = 'REPLAYED' AND NOT EXISTS (
                     SELECT FROM dlo_replays r WHERE r.letter_id = d.id AND (r.done_at IS NULL OR r.done_at > now() - $1))
                 ORDER BY d.id LIMIT 5000 FOR UPDATE OF d SKIP LOCKED
             )
             UPDATE dead_letter_queue d SET status = 'RESOLVED', resolved_by = 'quiet'
             FROM quiet WHERE d.id = quiet.id AND d.created_at = quiet.created_at",
        )
        .bind(window)
        .execute(loan.connection());
        let resolved = within_for(ANSWER_DEADLINE, resolved).await?;
        loan.finish();
        Ok(resolved.rows_affected())
    }

    /// Attempts waiting, by source: how many, and for how long the oldest.
    pub async fn waiting(&self) -> Result<Vec<(String, i64, f64)>, sqlx::Error> {
        let mut loan = Loan::take(self).await?;
        // Called for the metrics of the replay backlog.
        let waiting = sqlx::query_as(
            "SELECT coalesce(source, ''), count(*), extract(epoch FROM now() - min(requested_at))::float8
             FROM dlo_replays WHERE state = 'PENDING' GROUP BY 1",
        )
        .fetch_all(loan.connection());
        let waiting = within_for(ANSWER_DEADLINE, waiting).await?;
        loan.finish();
        Ok(waiting)
    }
}

/// What sending a letter takes, of `dead_letter_queue d`.
pub(super) const SENT_COLUMNS: &str = "d.dialect, d.broker, d.origin_exchange, d.origin_routing_key, d.origin_queue, \
     d.origin_topic, d.origin_partition, d.captured_queue, d.captured_exchange, d.captured_routing_key, d.captured_topic, \
     d.captured_partition, d.captured_offset, d.payload_state, d.body, d.message_key, d.wire, d.traceback";

/// A letter from [`SENT_COLUMNS`].
pub(super) fn letter(row: &sqlx::postgres::PgRow) -> Result<Letter, sqlx::Error> {
    let text = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<String>, _>(column)?.map(Text::from));
    let origin = Origin {
        exchange: text("origin_exchange")?,
        routing_key: text("origin_routing_key")?,
        queue: text("origin_queue")?,
        topic: text("origin_topic")?,
        partition: row.try_get("origin_partition")?,
        ..Origin::default()
    };
    let captured = CapturedFrom {
        queue: row.try_get::<Option<String>, _>("captured_queue")?.map(Into::into),
        exchange: text("captured_exchange")?,
        routing_key: text("captured_routing_key")?,
        topic: row.try_get::<Option<String>, _>("captured_topic")?.map(Into::into),
        partition: row.try_get("captured_partition")?,
        offset: row.try_get("captured_offset")?,
        redelivered: false,
    };
    let traceback: Option<String> = row.try_get("traceback")?;
    let message = match row.try_get::<Option<Vec<u8>>, _>("wire")? {
        None => {
            Err("the letter has no wire form: a service wrote it, and no route says where such letters go".to_owned())
        }
        Some(bytes) => wire::decode(&bytes, traceback.as_deref()).map_err(|error| error.to_string()),
    };
    let body: Option<Vec<u8>> = row.try_get("body")?;
    let key: Option<Vec<u8>> = row.try_get("message_key")?;
    let message = message.map(|message| RawMessage { body: body.map(Into::into), key: key.map(Into::into), ..message });
    let payload_state: Option<String> = row.try_get("payload_state")?;
    Ok(Letter {
        dialect: row.try_get("dialect")?,
        broker: row.try_get("broker")?,
        origin,
        captured,
        is_tombstone: payload_state.as_deref() == Some(PayloadState::Tombstone.as_str()),
        message,
    })
}
