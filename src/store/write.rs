//! The store's one entry for capture: rows and the proof that they are ours to write, in one transaction.

use std::time::Duration;

use sqlx::{Executor, PgConnection, Row};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    PgStore,
    copies::Window,
    copy::{HEADER, TRAILER},
    error::WriteError,
    lease::{Lease, copy_deadline, within, within_for},
    positions, returns,
    row::{COLUMNS, Form, encode},
};
use crate::{
    dead_letter::{DeadLetter, Status},
    source::{Claim, SessionClaim},
};

/// sqlx flushes at each send: chunks of this size cost less than a microsecond a row.
const COPY_CHUNK_BYTES: usize = 256 * 1024;

/// A receipt that only a commit can make. Against it a batch gives up its ack tokens.
#[derive(Debug)]
#[must_use = "what is stored has to be acked"]
#[expect(clippy::manual_non_exhaustive, reason = "the private field is to keep this crate, too, from making one up")]
pub struct Stored {
    pub rows: usize,
    pub bytes: usize,
    /// Rows marked as second copies.
    pub duplicates: usize,
    /// Rows stored with less than was known of them.
    pub degraded: usize,
    /// Replays that are known by these rows to have died again.
    pub died_again: usize,
    _commit: (),
}

/// How long a written batch waits for the one before it, with a connection that others may need.
const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

impl PgStore {
    /// Writes all of `letters` or none. `claim` is the source's proof; `turn` is awaited before the commit, because
    /// batches of one source commit in order.
    ///
    /// Must not be cancelled half-way: a half-sent COPY spoils the connection. If it is, the connection is closed,
    /// never returned to the pool.
    pub async fn write(
        &self,
        letters: &mut [DeadLetter],
        claim: &mut Claim,
        turn: &CancellationToken,
    ) -> Result<Stored, WriteError> {
        self.write_as(letters, claim, turn, Form::Full, "").await
    }

    /// Writes one letter in a form in which it may be accepted after it was `refused`, as [`PgStore::write`] does.
    pub async fn write_degraded(
        &self,
        letter: &mut DeadLetter,
        claim: &mut Claim,
        turn: &CancellationToken,
        form: Form,
        refused: &str,
    ) -> Result<Stored, WriteError> {
        self.write_as(std::slice::from_mut(letter), claim, turn, form, refused).await
    }

    async fn write_as(
        &self,
        letters: &mut [DeadLetter],
        claim: &mut Claim,
        turn: &CancellationToken,
        form: Form,
        refused: &str,
    ) -> Result<Stored, WriteError> {
        let mut txn = Transaction::begin(self).await?;
        // On an error `txn` is dropped and its connection closed: the one rollback that cannot hang.
        let stored = txn.write(letters, claim, turn, form, refused).await?;
        txn.finish();
        Ok(stored)
    }
}

/// An open transaction. On an error it is dropped and its connection closed: the one rollback that cannot hang.
struct Transaction(Lease);

impl Transaction {
    async fn begin(store: &PgStore) -> Result<Self, WriteError> {
        let mut txn = Self(Lease::take(store).await?);
        within(txn.connection().execute("BEGIN")).await?;
        Ok(txn)
    }

    fn connection(&mut self) -> &mut PgConnection {
        self.0.connection()
    }

    /// Gives the connection back to the pool.
    fn finish(self) {
        self.0.finish();
    }

    async fn write(
        &mut self,
        letters: &mut [DeadLetter],
        claim: &mut Claim,
        turn: &CancellationToken,
        form: Form,
        refused: &str,
    ) -> Result<Stored, WriteError> {
        let claimed = match &*claim {
            Claim::Session(session) if letters.iter().any(|l| l.captured.redelivered) => {
                let window = within(Window::load(self.connection(), session, letters)).await?;
                window.mark(letters)
            }
            _ => Vec::new(),
        };
        let returned = within(returns::recognise(self.connection(), letters)).await?;
        let bytes = match form {
            Form::Quarantine => self.quarantine(letters, refused).await?,
            form => self.copy(letters, form, refused).await?,
        };
        timeout(TURN_WAIT_MAX, turn.cancelled()).await.map_err(|_| WriteError::NotMyTurn)?;
        // After the turn: the rows this locks are ones that people wait for.
        let died_again = within(returns::record(self.connection(), &returned)).await?;
        match claim {
            Claim::None => {
                within(self.connection().execute("COMMIT")).await?;
            }
            Claim::Session(session) => self.commit_session(session, &claimed).await?,
            Claim::Positions(positions) => {
                let moves = positions.moves(letters);
                let sql = format!("{}; COMMIT", positions::move_sql(&positions.group, &moves));
                within(self.connection().execute(sql.as_str())).await?;
                positions.advance(&moves);
            }
        }
        let duplicates = letters.iter().filter(|l| l.status == Status::Duplicate).count();
        let degraded = if form == Form::Full { 0 } else { letters.len() };
        Ok(Stored { rows: letters.len(), bytes, duplicates, degraded, died_again, _commit: () })
    }

    /// Encodes and sends rows, a chunk at a time. Returns the bytes sent.
    async fn copy(&mut self, letters: &[DeadLetter], form: Form, refused: &str) -> Result<usize, WriteError> {
        let statement = format!("COPY dead_letter_queue ({COLUMNS}) FROM STDIN (FORMAT binary)");
        let mut copy = within(self.connection().copy_in_raw(&statement)).await?;
        let mut chunk = Vec::with_capacity(COPY_CHUNK_BYTES + 64 * 1024);
        chunk.extend_from_slice(HEADER);
        let mut sent = 0;
        for letter in letters {
            encode(&mut chunk, letter, form, refused);
            if chunk.len() >= COPY_CHUNK_BYTES {
                sent += chunk.len();
                within_for(copy_deadline(chunk.len()), copy.send(chunk.as_slice())).await?;
                chunk.clear();
            }
        }
        chunk.extend_from_slice(&TRAILER);
        sent += chunk.len();
        within_for(copy_deadline(sent), copy.send(chunk.as_slice())).await?;
        within_for(copy_deadline(sent), copy.finish()).await?;
        Ok(sent)
    }

    async fn quarantine(&mut self, letters: &[DeadLetter], error: &str) -> Result<usize, WriteError> {
        let mut bytes = 0;
        for letter in letters {
            let mut wire = Vec::new();
            crate::message::wire::encode(&mut wire, &letter.message, None);
            let body = letter.message.body.as_deref();
            bytes += wire.len() + body.map_or(0, <[u8]>::len);
            // Called for a row that dead_letter_queue refuses in every form.
            let insert = sqlx::query(
                "INSERT INTO dlo_quarantine (source, queue, error, body, message_key, wire) VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(&letter.source.name)
            .bind(letter.captured.queue.as_deref().or(letter.captured.topic.as_deref()))
            .bind(error.replace('\0', "\u{2400}"))
            .bind(body)
            .bind(letter.message.key.as_deref())
            .bind(wire);
            within_for(copy_deadline(bytes), insert.execute(self.connection())).await?;
        }
        Ok(bytes)
    }

    /// The fence and the COMMIT in one message: a client frozen between the two would hold a lock others wait for.
    async fn commit_session(&mut self, claim: &SessionClaim, claimed: &[(i64, Vec<i64>)]) -> Result<(), WriteError> {
        let SessionClaim { session, epoch, acked_tag, floor_id, .. } = claim;
        let number = session.next_commit();
        let mut sql = String::new();
        for (other, rows) in claimed {
            let rows: Vec<String> = rows.iter().map(i64::to_string).collect();
            sql.push_str(&format!("SELECT dlo_capture_claim({other}, ARRAY[{}]::bigint[]);", rows.join(",")));
        }
        sql.push_str(&format!(
            "SELECT dlo_capture_fence({}, {number}, {epoch}, {acked_tag}, {floor_id}) AS ceiling; COMMIT",
            session.id
        ));
        let rows = match within(self.connection().fetch_all(sql.as_str())).await {
            Ok(rows) => rows,
            Err(error) => {
                let error = WriteError::from(error);
                if matches!(error, WriteError::DoneAlready) {
                    session.committed(number, None);
                }
                return Err(error);
            }
        };
        let ceiling = rows.last().and_then(|row| row.try_get::<i64, _>("ceiling").ok());
        session.committed(number, ceiling);
        Ok(())
    }
}
