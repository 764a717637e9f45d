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
    source::{AckToken, Claim, Unclaimed},
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
            Claim::None => None,
        };
        let received = batch.received_at();
        let started = Instant::now();
        let (mut letters, tokens): (Vec<_>, Vec<_>) =
            batch.into_deliveries().into_iter().map(|delivery| compose(delivery, &self.source, session)).unzip();
        let mut claim = claim;
        // Halves still to be written, in order from the end.
        let mut parts: Vec<std::ops::Range<usize>> = std::iter::once(0..letters.len()).collect();
        while let Some(part) = parts.pop() {
            let Some(written) = self.write_part(&mut letters[part.clone()], &mut claim).await else {
                return Outcome::Dropped;
            };
            match written {
                Part::Stored(stored) => {
                    let waited = received.map_or_else(|| started.elapsed(), |at| at.elapsed());
                    self.metrics.stored(stored.rows, stored.bytes, started.elapsed(), waited);
                    self.metrics.duplicates(stored.duplicates);
                    self.metrics.degraded(stored.degraded);
                }
                Part::DoneAlready => self.metrics.stored_before(part.len()),
                Part::Refused => {
                    let middle = part.start + part.len() / 2;
                    parts.push(middle..part.end);
                    parts.push(part.start..middle);
                }
            }
        }
        Outcome::Written(tokens)
    }

    /// Tries until the rows are committed or refused. `None` when they are not ours any more.
    async fn write_part(&self, letters: &mut [DeadLetter], claim: &mut Claim) -> Option<Part> {
        let mut pauses = pauses();
        let (mut form, mut refused) = (Form::Full, String::new());
        loop {
            if claim.is_partial() {
                *claim = self.reclaim(claim.clone()).await?;
            }
            let outcome = match (form, &mut *letters) {
                (Form::Full, letters) => self.store.write(letters, claim, &self.turn).await,
                (form, letters) => self.store.write_degraded(&mut letters[0], claim, &self.turn, form, &refused).await,
            };
            match outcome {
                Ok(stored) => {
                    self.metrics.writable();
                    return Some(Part::Stored(stored));
                }
                Err(WriteError::DoneAlready) => return Some(Part::DoneAlready),
                Err(WriteError::Refused(_)) if letters.len() > 1 => return Some(Part::Refused),
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

enum Part {
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
