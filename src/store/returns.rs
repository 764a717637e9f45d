//! Returns: letters that were replayed and died again, recognised by the token their replay carried.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::{
    dead_letter::{DeadLetter, REPLAY_ID, Status},
    message::Text,
};

struct Sent {
    first: i64,
    origin_exchange: Option<String>,
    origin_routing_key: Option<String>,
    origin_queue: Option<String>,
    /// It was not sent to where it was first published.
    elsewhere: bool,
}

/// Marks those of `letters` that came back with a token of ours. Returns the tokens of true returns.
pub(super) async fn recognise(
    connection: &mut PgConnection,
    letters: &mut [DeadLetter],
) -> Result<Vec<Uuid>, sqlx::Error> {
    let tokens: Vec<Uuid> = letters.iter().filter_map(token).collect();
    if tokens.is_empty() {
        return Ok(tokens);
    }
    let known = sent(connection, &tokens).await?;
    let mut returned = Vec::new();
    for letter in letters.iter_mut() {
        let Some((token, sent)) = token(letter).and_then(|t| Some((t, known.get(&t)?))) else { continue };
        if letter.status == Status::Duplicate {
            continue;
        }
        let died_at = letter.reading.origin.queue.as_ref().and_then(Text::as_sql);
        let same_consumer = match (died_at, sent.origin_queue.as_deref()) {
            (Some(now), Some(then)) => now == then,
            _ => true,
        };
        if !same_consumer {
            // The replay fanned out, and somebody else failed: a letter of its own.
            letter.reading.notes.set("replay_of_other_consumer", sent.first);
            continue;
        }
        letter.status = Status::Repeated;
        letter.replay_of = Some(sent.first);
        if sent.elsewhere {
            // Where it was first published is the first letter's to tell.
            letter.reading.origin.exchange = sent.origin_exchange.as_deref().map(Text::from);
            letter.reading.origin.routing_key = sent.origin_routing_key.as_deref().map(Text::from);
        }
        returned.push(token);
    }
    returned.sort_unstable();
    returned.dedup();
    Ok(returned)
}

fn token(letter: &DeadLetter) -> Option<Uuid> {
    letter.message.headers.get_last(REPLAY_ID)?.as_str()?.parse().ok()
}

async fn sent(connection: &mut PgConnection, tokens: &[Uuid]) -> Result<HashMap<Uuid, Sent>, sqlx::Error> {
    // Called for batches in which a message carries dlo-replay-id.
    let rows = sqlx::query(
        "SELECT r.token, r.letter_id, r.target <> '\"original\"' AS elsewhere, d.origin_exchange, d.origin_routing_key, d.origin_queue
         FROM dlo_replays r JOIN dead_letter_queue d ON d.id = r.letter_id AND d.created_at = r.letter_created_at
         WHERE r.token = ANY ($1)",
    )
    .bind(tokens)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let sent = Sent {
                first: row.try_get("letter_id")?,
                origin_exchange: row.try_get("origin_exchange")?,
                origin_routing_key: row.try_get("origin_routing_key")?,
                origin_queue: row.try_get("origin_queue")?,
                elsewhere: row.try_get("elsewhere")?,
            };
            Ok((row.try_get("token")?, sent))
        })
        .collect()
}

/// Records the returns with their replays and first letters, and says of how many replays. A token counts once, however
/// often it comes back.
pub(super) async fn record(connection: &mut PgConnection, returned: &[Uuid]) -> Result<usize, sqlx::Error> {
    if returned.is_empty() {
        return Ok(0);
    }
    // Called in the transaction that stores the returns, which are there by now. The row locks are taken in the order of
    // ids. What a letter is now is decided by the newest attempt that may have arrived: a late return of an older one
    // says nothing about it.
    let died: i64 = sqlx::query_scalar(
        "WITH died AS (
             SELECT id, letter_id, letter_created_at, token FROM dlo_replays
             WHERE token = ANY ($1) AND verdict IS DISTINCT FROM 'DIED_AGAIN' ORDER BY id FOR UPDATE
         ), verdict AS (
             UPDATE dlo_replays r
             SET verdict = 'DIED_AGAIN', state = 'DONE', error = NULL, lease_until = NULL, done_at = coalesce(r.done_at, now()),
                 returned_as = (SELECT min(d.id) FROM dead_letter_queue d
                                WHERE d.replay_of = died.letter_id AND d.headers ->> 'dlo-replay-id' = died.token::text)
             FROM died WHERE r.id = died.id
         ), first AS (
             UPDATE dead_letter_queue d
             SET retry_count = d.retry_count + died.times, resolved_by = CASE WHEN died.is_newest THEN NULL ELSE d.resolved_by END,
                 status = CASE WHEN died.is_newest AND d.status IN ('REPLAYING', 'REPLAYED', 'RESOLVED') THEN 'FAILED' ELSE d.status END,
                 notes = CASE WHEN d.notes -> 'in_doubt' = ANY (died.attempts) THEN nullif(d.notes - 'in_doubt', '{}') ELSE d.notes END
             FROM (SELECT letter_id, letter_created_at, count(*)::int AS times, array_agg(to_jsonb(id)) AS attempts,
                          NOT EXISTS (SELECT FROM dlo_replays newer
                                      WHERE newer.letter_id = died.letter_id AND newer.id > max(died.id)
                                        AND (newer.state IN ('LEASED', 'IN_DOUBT') OR newer.verdict = 'ROUTED')) AS is_newest
                   FROM died GROUP BY letter_id, letter_created_at) AS died
             WHERE d.id = died.letter_id AND d.created_at = died.letter_created_at
         )
         SELECT count(*) FROM died",
    )
    .bind(returned)
    .fetch_one(connection)
    .await?;
    Ok(usize::try_from(died).unwrap_or(0))
}
