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
    to_queue: bool,
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
        if sent.to_queue {
            // It was sent to the queue, not to where it was first published; that is the first letter's to tell.
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
        "SELECT r.token, r.letter_id, r.target = '\"queue\"' AS to_queue, d.origin_exchange, d.origin_routing_key, d.origin_queue
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
                to_queue: row.try_get("to_queue")?,
            };
            Ok((row.try_get("token")?, sent))
        })
        .collect()
}

/// Records the returns with their replays and first letters. A token counts once, however often it comes back.
pub(super) async fn record(connection: &mut PgConnection, returned: &[Uuid]) -> Result<(), sqlx::Error> {
    if returned.is_empty() {
        return Ok(());
    }
    // Called in the transaction that stores the returns. The row locks are taken in the order of ids.
    sqlx::query(
        "WITH died AS (
             SELECT id, letter_id, letter_created_at FROM dlo_replays
             WHERE token = ANY ($1) AND verdict IS DISTINCT FROM 'DIED_AGAIN' ORDER BY letter_id FOR UPDATE
         ), verdict AS (
             UPDATE dlo_replays r SET verdict = 'DIED_AGAIN', state = 'DONE', done_at = coalesce(r.done_at, now())
             FROM died WHERE r.id = died.id
         )
         UPDATE dead_letter_queue d
         SET retry_count = d.retry_count + 1, resolved_by = NULL,
             status = CASE WHEN d.status IN ('REPLAYING', 'REPLAYED', 'RESOLVED') THEN 'FAILED' ELSE d.status END
         FROM died WHERE d.id = died.letter_id AND d.created_at = died.letter_created_at",
    )
    .bind(returned)
    .execute(connection)
    .await?;
    Ok(())
}
