//! Writes one batch, however long it takes: waits out what passes, halves what is refused.

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{batch::Batch, letter::compose};
use crate::{
    dead_letter::{DeadLetter, SourceInfo},
    metrics::SourceMetrics,
    source::{
        AckToken, Claim, Partition, Unclaimed,
        positions::{Move, Moved},
    },
    store::{Form, PgStore, Stored, WriteError, error},
};

/// Asks the pipeline, which has the source, for a fresh claim.
pub(super) struct Reclaim {
    pub(super) claim: Claim,
    pub(super) reply: oneshot::Sender<Result<Claim, Unclaimed>>,
}

/// How a batch ended.
pub(super) enum Outcome {
    /// Committed: its tokens may be acked.
    Written(Vec<AckToken>),
    /// Its session is over, or the process is stopping: the broker has its messages.
    Dropped,
}

/// One batch on its way into the table.
pub(super) struct Writer {
    pub(super) store: Arc<PgStore>,
    pub(super) source: Arc<SourceInfo>,
    pub(super) metrics: SourceMetrics,
    pub(super) reclaims: mpsc::Sender<Reclaim>,
    /// Cancelled when the batch before this one has ended.
    pub(super) turn: CancellationToken,
    pub(super) stop_hard: CancellationToken,
}

impl Writer {
    /// Runs to the end of the batch.
    pub(super) async fn write(self, batch: Batch, claim: Claim) -> Outcome {
        let session = match &claim {
            Claim::Session(claim) => Some(claim.session.id),
            Claim::None | Claim::Positions(_) => None,
        };
        let received = batch.received_at();
        let started = Instant::now();
        let (letters, tokens) =
            batch.into_deliveries().into_iter().map(|delivery| compose(delivery, &self.source, session)).unzip();
        let mut claim = claim;
        let mut acks = Vec::new();
        // Halves still to be written, in order from the end.
        let mut parts = vec![Part { letters, tokens, stored: Vec::new() }];
        while let Some(mut part) = parts.pop() {
            let Some(written) = self.write_part(&mut part, &mut claim).await else {
                return Outcome::Dropped;
            };
            match written {
                Written::Stored(stored) => {
                    let waited = received.map_or_else(|| started.elapsed(), |at| at.elapsed());
                    self.metrics.stored(stored.rows, stored.bytes, started.elapsed(), waited);
                    self.metrics.duplicates(stored.duplicates);
                    self.metrics.degraded(stored.degraded);
                    self.metrics.died_again(stored.died_again);
                }
                Written::DoneAlready => self.metrics.stored_before(part.letters.len()),
                Written::Refused => {
                    let rest = part.split();
                    parts.extend([rest, part]);
                    continue;
                }
            }
            acks.append(&mut part.stored);
            acks.append(&mut part.tokens);
        }
        Outcome::Written(acks)
    }

    /// Tries until the rows are committed or refused. `None` when they are not ours any more.
    async fn write_part(&self, part: &mut Part, claim: &mut Claim) -> Option<Written> {
        let mut pauses = pauses();
        let (mut form, mut refused) = (Form::Full, String::new());
        loop {
            if claim.is_partial() {
                *claim = self.reclaim(claim.clone()).await?;
            }
            let letters = &mut part.letters;
            let outcome = match (form, &mut **letters) {
                (Form::Full, letters) => self.store.write(letters, claim, &self.turn).await,
                (form, letters) => self.store.write_degraded(&mut letters[0], claim, &self.turn, form, &refused).await,
            };
            match outcome {
                Ok(stored) => {
                    self.metrics.writable();
                    return Some(Written::Stored(stored));
                }
                Err(WriteError::DoneAlready) => return Some(Written::DoneAlready),
                Err(WriteError::Moved(moved)) => {
                    if !self.drop_moved(part, claim, moved).await? {
                        return Some(Written::DoneAlready);
                    }
                }
                Err(WriteError::Refused(_)) if letters.len() > 1 => return Some(Written::Refused),
                Err(WriteError::Refused(why)) if form.safer().is_some() => {
                    refused = error::describe(&why);
                    form = form.safer().unwrap_or(form);
                    tracing::warn!(source = %self.source.name, error = %refused, storing = form.name(), "letter refused by the database");
                }
                Err(WriteError::Fenced | WriteError::SessionUnknown) => *claim = self.reclaim(claim.clone()).await?,
                Err(WriteError::ClaimedElsewhere) => {}
                Err(WriteError::NotMyTurn) => self.unless_stopped(self.turn.cancelled()).await?,
                Err(error) => {
                    let pause = pauses.next().unwrap_or(PAUSE_MAX);
                    self.metrics.unwritable(error.kind(), &error, pause);
                    self.unless_stopped(tokio::time::sleep(pause)).await?;
                }
            }
        }
    }

    /// Takes out the messages of partitions that are not where they were expected. Those that the position has passed
    /// are in the table: the answer to a commit of ours got lost, or another instance wrote them. The others will be
    /// read again by whoever owns their partition. Whether anything is left to be written.
    async fn drop_moved(&self, part: &mut Part, claim: &mut Claim, moved: Vec<Moved>) -> Option<bool> {
        let Claim::Positions(positions) = &mut *claim else { return Some(true) };
        let moves = positions.moves(&part.letters);
        let (passed, lost): (Vec<_>, Vec<_>) = moved.into_iter().partition(|moved| {
            let step = moves.iter().find(|step| step.partition == moved.partition);
            step.zip(moved.at).is_some_and(|(step, at)| at.epoch == step.from.epoch && at.offset >= step.to)
        });
        let passed: Vec<Move> = (moves.iter())
            .filter(|step| passed.iter().any(|moved| moved.partition == step.partition))
            .cloned()
            .collect();
        positions.advance(&passed);
        if passed.len() == moves.len() {
            return Some(false);
        }
        let mut stored_before = part.take(passed.iter().map(|step| &step.partition));
        self.metrics.stored_before(stored_before.len());
        part.stored.append(&mut stored_before);
        if !lost.is_empty() {
            let lost: Vec<_> = lost.into_iter().map(|moved| moved.partition).collect();
            let dropped = part.take(&lost).len();
            self.metrics.dropped(dropped);
            let names: Vec<_> = lost.iter().map(ToString::to_string).collect();
            tracing::info!(source = %self.source.name, partitions = names.join(", "), messages = dropped,
                "positions are not where they were expected: what was read is read again, by us or by the partition's new owner");
            positions.lost = lost;
            *claim = self.reclaim(claim.clone()).await?;
        }
        Some(!part.letters.is_empty())
    }

    /// A claim that can be committed with; `None` when the batch is not ours any more.
    async fn reclaim(&self, claim: Claim) -> Option<Claim> {
        let mut pauses = pauses();
        loop {
            let (reply, answer) = oneshot::channel();
            self.reclaims.send(Reclaim { claim: claim.clone(), reply }).await.ok()?;
            match self.unless_stopped(answer).await?.ok()? {
                Ok(claim) => return Some(claim),
                Err(Unclaimed::SessionOver) => return None,
                Err(Unclaimed::Later(error)) => {
                    let pause = pauses.next().unwrap_or(PAUSE_MAX);
                    self.metrics.unwritable("unavailable", &error, pause);
                    self.unless_stopped(tokio::time::sleep(pause)).await?;
                }
            }
        }
    }

    async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        self.stop_hard.run_until_cancelled(wait).await
    }
}

/// Letters that are written in one transaction, and what acks them.
struct Part {
    letters: Vec<DeadLetter>,
    /// One each.
    tokens: Vec<AckToken>,
    /// Of letters that turned out to be in the table.
    stored: Vec<AckToken>,
}

impl Part {
    /// Cuts off the second half.
    fn split(&mut self) -> Self {
        let middle = self.letters.len() / 2;
        Self { letters: self.letters.split_off(middle), tokens: self.tokens.split_off(middle), stored: Vec::new() }
    }

    /// Takes out the letters of some partitions. Returns their tokens.
    fn take<'p>(&mut self, partitions: impl IntoIterator<Item = &'p Partition>) -> Vec<AckToken> {
        let partitions: Vec<_> = partitions.into_iter().map(|p| (Some(&*p.topic), Some(p.number))).collect();
        let pairs = std::mem::take(&mut self.letters).into_iter().zip(std::mem::take(&mut self.tokens));
        let (taken, kept): (Vec<_>, Vec<_>) = pairs.partition(|(letter, _)| {
            partitions.contains(&(letter.captured.topic.as_deref(), letter.captured.partition))
        });
        (self.letters, self.tokens) = kept.into_iter().unzip();
        taken.into_iter().map(|(_, token)| token).collect()
    }
}

enum Written {
    Stored(Stored),
    DoneAlready,
    Refused,
}

const PAUSE_MAX: Duration = Duration::from_secs(5);

/// 50 ms to 5 s, doubled each time, with jitter.
fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(PAUSE_MAX)
        .with_jitter()
        .without_max_times()
        .build()
}
