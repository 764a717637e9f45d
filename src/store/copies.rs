//! Second copies: which redelivered messages are in the table already.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest, Sha256};
use sqlx::{PgConnection, Row};

use crate::{
    dead_letter::{DeadLetter, Status},
    message::{RawMessage, Value, wire},
    source::SessionClaim,
};

/// What tells two messages apart: body, properties and headers, but for what a broker counts by itself.
type Content = [u8; 32];

/// Rows of other sessions of the same queue that the broker is not known to have let go of, by content.
#[derive(Debug)]
pub(super) struct Window {
    rows: HashMap<Content, VecDeque<Candidate>>,
}

#[derive(Debug)]
struct Candidate {
    id: i64,
    session: i64,
    /// The first letter of the same content.
    root: i64,
}

impl Window {
    /// Loads the candidates for those of `letters` that are flagged as redelivered.
    pub(super) async fn load(
        connection: &mut PgConnection,
        claim: &SessionClaim,
        letters: &[DeadLetter],
    ) -> Result<Self, sqlx::Error> {
        let lengths: Vec<i32> = letters
            .iter()
            .filter(|l| l.captured.redelivered)
            .filter_map(|l| i32::try_from(l.message.body.as_ref().map_or(0, bytes::Bytes::len)).ok())
            .collect();
        // Called before a batch with redelivered messages is written. The id range keeps it on the primary key.
        let rows = sqlx::query(
            "SELECT d.id, s.id AS session, coalesce(d.duplicate_of, d.id) AS root, d.wire, d.traceback,
                    sha256(coalesce(d.body, '')) AS body_digest
             FROM dlo_capture_sessions mine
             JOIN dlo_capture_sessions s ON s.source = mine.source AND s.queue = mine.queue AND s.id <> mine.id
             JOIN dead_letter_queue d ON d.id > s.floor_id AND d.id <= s.ceiling_id AND d.capture_session = s.id
                                     AND d.delivery_tag > s.acked_tag
             WHERE mine.id = $1 AND s.ceiling_id > s.floor_id AND d.id <> ALL (s.claimed)
               AND octet_length(coalesce(d.body, '')) = ANY ($2)
             ORDER BY d.id",
        )
        .bind(claim.session.id)
        .bind(lengths)
        .fetch_all(connection)
        .await?;
        let mut window = Self { rows: HashMap::new() };
        for row in rows {
            let traceback: Option<String> = row.try_get("traceback")?;
            let wire: Vec<u8> = row.try_get::<Option<_>, _>("wire")?.unwrap_or_default();
            // A row that cannot be read any more cannot be compared either: its second copy counts as new.
            let Ok(message) = wire::decode(&wire, traceback.as_deref()) else { continue };
            let content = content(&row.try_get::<Vec<u8>, _>("body_digest")?, message);
            let candidate =
                Candidate { id: row.try_get("id")?, session: row.try_get("session")?, root: row.try_get("root")? };
            window.rows.entry(content).or_default().push_back(candidate);
        }
        Ok(window)
    }

    /// Marks second copies among `letters`, each against a row of its own. Returns the rows used, by session.
    pub(super) fn mark(mut self, letters: &mut [DeadLetter]) -> Vec<(i64, Vec<i64>)> {
        let mut claimed: Vec<(i64, Vec<i64>)> = Vec::new();
        for letter in letters.iter_mut().filter(|l| l.captured.redelivered) {
            let body = Sha256::digest(letter.message.body.as_deref().unwrap_or_default());
            let bare = RawMessage { body: None, ..letter.message.clone() };
            let found = self.rows.get_mut(&content(&body, bare)).and_then(VecDeque::pop_front);
            // A batch may be tried again: what an earlier try found does not count.
            letter.status = if found.is_some() { Status::Duplicate } else { Status::Failed };
            letter.duplicate_of = found.as_ref().map(|row| row.root);
            letter.replay_of = None;
            letter.reading.notes.unset("copy");
            let Some(row) = found else { continue };
            letter.reading.notes.set("copy", "redelivery");
            match claimed.iter_mut().find(|(session, _)| *session == row.session) {
                Some((_, rows)) => rows.push(row.id),
                None => claimed.push((row.session, vec![row.id])),
            }
        }
        // Always in the same order, or two writers could wait for each other.
        claimed.sort_unstable_by_key(|(session, _)| *session);
        claimed
    }
}

fn content(body_digest: &[u8], mut message: RawMessage) -> Content {
    message.headers.retain(|name, _: &Value| !(name == "x-delivery-count" || name == "x-acquired-count"));
    let mut wire = Vec::new();
    wire::encode(&mut wire, &message, None);
    Sha256::new().chain_update(body_digest).chain_update(&wire).finalize().into()
}
