//! The attempts of one claim: made side by side, recorded as they end.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Patience, Publisher, Replay,
    attempt::{attempt, not_sent},
};
use crate::store::claim::{End, Lease, Record};

/// Bytes of letters loaded at once; one larger letter goes alone.
const LOAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What ends within such a time is recorded together.
const RECORD_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Work {
    pub(super) replay: Replay,
    pub(super) broker: String,
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) claimed_at: Instant,
}

/// How it went.
pub(super) struct Made {
    pub(super) replays: Vec<i64>,
    /// Something could not be sent: the broker is away.
    pub(super) not_sent: bool,
}

impl Work {
    /// Makes the attempts of `leases`, a few megabytes of letters at a time.
    pub(super) async fn make(self, mut leases: Vec<Lease>) -> Made {
        let mut made = Made { replays: leases.iter().map(|lease| lease.replay).collect(), not_sent: false };
        while !leases.is_empty() {
            let mut bytes = 0;
            let fits = leases.iter().take_while(|lease| {
                bytes += lease.bytes;
                bytes <= LOAD_BYTES_MAX
            });
            let rest = leases.split_off(fits.count().max(1));
            made.not_sent |= self.publish(&leases).await;
            leases = rest;
        }
        made
    }

    /// Says whether something could not be sent.
    async fn publish(&self, leases: &[Lease]) -> bool {
        let began = Instant::now();
        let letters = match timeout(self.left_to_begin(), self.replay.store.load(leases)).await {
            Ok(Ok(letters)) => letters,
            Ok(Err(error)) => {
                return self.all_not_sent(leases, &format!("the letter could not be read: {error}")).await;
            }
            Err(_) => return self.all_not_sent(leases, "the lease was used up before its turn came").await,
        };
        let patience = Patience {
            begin_by: self.claimed_at + self.replay.lease / 2,
            until: self.claimed_at + self.replay.lease * 3 / 4,
            last_call: self.replay.last_call.clone(),
        };
        let mut attempts: FuturesUnordered<_> = leases
            .iter()
            .zip(letters)
            .map(|(lease, letter)| {
                let attempt = attempt(&self.broker, self.publisher.as_ref(), lease, letter, &patience);
                attempt.map(move |record| (lease, record))
            })
            .collect();
        let mut any_not_sent = false;
        while let Some((lease, record)) = attempts.next().await {
            let mut ended = vec![lease];
            let mut records = vec![record];
            let more = async {
                while let Some((lease, record)) = attempts.next().await {
                    ended.push(lease);
                    records.push(record);
                }
            };
            let _ = timeout(RECORD_PAUSE, more).await;
            any_not_sent |= records.iter().any(|record| matches!(record.end, End::NotSent(_)));
            self.record(&records).await;
            self.count(&ended, &records, began);
        }
        any_not_sent
    }

    /// The first half of the lease is for beginning.
    fn left_to_begin(&self) -> Duration {
        (self.claimed_at + self.replay.lease / 2).saturating_duration_since(Instant::now())
    }

    async fn all_not_sent(&self, leases: &[Lease], why: &str) -> bool {
        let records: Vec<Record> = leases.iter().map(|lease| not_sent(lease, why)).collect();
        self.record(&records).await;
        tracing::warn!(attempts = leases.len(), broker = self.broker, why, "replays not sent yet");
        true
    }

    /// Records, however long the database takes, within the lease: after that the attempts are in doubt anyway.
    async fn record(&self, records: &[Record]) {
        let deadline = self.claimed_at + self.replay.lease;
        loop {
            match self.replay.store.record(records).await {
                Ok(recorded) => {
                    if recorded < records.len() {
                        // In doubt by now, or come back already.
                        let late = records.len() - recorded;
                        tracing::info!(late, broker = self.broker, "outcomes of replays came too late to be recorded");
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, attempts = records.len(), "outcomes of replays not recorded yet");
                }
            }
            if Instant::now() >= deadline {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    fn count(&self, leases: &[&Lease], records: &[Record], began: Instant) {
        let mut waits = None;
        for (lease, record) in leases.iter().zip(records) {
            match &record.end {
                End::NotSent(why) => waits = Some(why),
                end => {
                    // Labels come from the configuration, never from the table.
                    if let Some(source) = lease.source.as_ref().filter(|source| self.replay.sources.contains(source)) {
                        let series = self.replay.metrics.replay(source);
                        series.outcome(end.verdict().unwrap_or("IN_DOUBT"), began.elapsed());
                    }
                }
            }
        }
        if let Some(why) = waits {
            tracing::warn!(broker = self.broker, why, "replays not sent yet");
        }
    }
}
