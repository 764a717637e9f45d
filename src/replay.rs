//! Replay: claim → publish → record.
//!
//! HTTP and the command line only insert attempts; this loop, in any number of instances, makes them. An attempt is
//! recorded as routed only against a [`Confirmed`], which only a publisher can make.

mod attempt;
pub mod pace;
pub mod publisher;
pub mod rabbitmq;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use sqlx::postgres::PgListener;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

pub use self::attempt::parse_target;
pub use self::publisher::{Confirmed, PublishError, Publisher};
use self::{attempt::attempt, pace::Pace};
use crate::{
    metrics::{Metrics, ReplayMetrics},
    store::{
        PgStore,
        claim::{End, Lease, Record},
    },
};

/// Attempts leased at once.
const CLAIM_MAX: i64 = 1000;
/// Bytes of letters loaded at once; one larger letter goes alone.
const LOAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Before a broker that was away is tried again.
const AWAY_PAUSE: Duration = Duration::from_secs(2);

/// What the loop needs.
#[derive(Clone)]
pub struct Replay {
    pub store: Arc<PgStore>,
    /// By the broker's name in the configuration.
    pub publishers: Arc<HashMap<String, Arc<dyn Publisher>>>,
    pub metrics: Metrics,
    /// Sources whose series exist from the start.
    pub sources: Vec<String>,
    /// Publishes under way at once.
    pub concurrency: usize,
    pub lease: Duration,
    pub verdict_window: Duration,
    /// Publishes a second; `None` is as fast as it goes.
    pub rate: Option<f64>,
    pub stop: CancellationToken,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("rate", &self.rate).field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Runs until told to stop; then finishes the attempts it holds.
pub async fn run(replay: Replay) {
    let series: HashMap<String, ReplayMetrics> =
        replay.sources.iter().map(|source| (source.clone(), replay.metrics.replay(source))).collect();
    let brokers: Vec<String> = replay.publishers.keys().cloned().collect();
    let mut pace = Pace::new(replay.rate, Instant::now());
    let mut wake = Wake::new(Arc::clone(&replay.store));
    while !replay.stop.is_cancelled() {
        let allowed = pace.allowed(Instant::now()).min(CLAIM_MAX);
        let leases = match replay.store.claim(&brokers, allowed, replay.lease).await {
            Ok(leases) => leases,
            Err(error) => {
                tracing::warn!(%error, "cannot look for replays");
                let _ = replay.stop.run_until_cancelled(sleep(Duration::from_secs(2))).await;
                continue;
            }
        };
        if leases.is_empty() {
            let _ = replay.stop.run_until_cancelled(wake.wait()).await;
            continue;
        }
        pace.spent(leases.len());
        if !make(&replay, &series, leases).await {
            // A broker is away. What could not be sent waits in the table.
            let _ = replay.stop.run_until_cancelled(sleep(AWAY_PAUSE)).await;
        }
        let _ = replay.stop.run_until_cancelled(tokio::time::sleep_until(pace.next(Instant::now()))).await;
    }
}

/// Makes the attempts of `leases`, a few megabytes of letters at a time. Says whether all were sent.
async fn make(replay: &Replay, series: &HashMap<String, ReplayMetrics>, mut leases: Vec<Lease>) -> bool {
    let mut all_sent = true;
    while !leases.is_empty() {
        let mut bytes = 0;
        let fits = leases.iter().take_while(|lease| {
            bytes += lease.bytes;
            bytes <= LOAD_BYTES_MAX
        });
        let rest = leases.split_off(fits.count().max(1));
        let started = Instant::now();
        let records = publish(replay, &leases).await;
        record(replay, &records).await;
        for (lease, record) in leases.iter().zip(&records) {
            let series = lease.source.as_ref().and_then(|source| series.get(source));
            match &record.end {
                End::NotSent(why) => {
                    all_sent = false;
                    tracing::warn!(replay = lease.replay, letter = lease.letter, why, "not sent yet");
                }
                end => {
                    if let Some(series) = series {
                        series.outcome(end.verdict().unwrap_or("IN_DOUBT"), started.elapsed());
                    }
                }
            }
        }
        leases = rest;
    }
    all_sent
}

async fn publish(replay: &Replay, leases: &[Lease]) -> Vec<Record> {
    let letters = match replay.store.load(leases).await {
        Ok(letters) => letters,
        Err(error) => {
            let why = format!("the letter could not be read: {error}");
            return leases.iter().map(|lease| attempt::not_sent(lease, &why)).collect();
        }
    };
    // Owned by the attempt: a future that borrows across a stream's items is not Send for every lifetime.
    let attempts: Vec<_> = (leases.iter().cloned().zip(letters))
        .map(|(lease, letter)| attempt(Arc::clone(&replay.publishers), lease, letter))
        .collect();
    stream::iter(attempts).buffered(replay.concurrency.max(1)).collect().await
}

/// Records, however long the database takes, within the lease: after that the attempts are in doubt anyway.
async fn record(replay: &Replay, records: &[Record]) {
    let deadline = Instant::now() + replay.lease;
    while let Err(error) = replay.store.record(records).await {
        tracing::warn!(%error, attempts = records.len(), "outcomes of replays not recorded yet");
        if Instant::now() >= deadline {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Waits for a notification from the database, or a second: notifications do not pass every pooler.
struct Wake {
    store: Arc<PgStore>,
    listener: Option<PgListener>,
}

impl Wake {
    fn new(store: Arc<PgStore>) -> Self {
        Self { store, listener: None }
    }

    async fn wait(&mut self) {
        if self.listener.is_none() {
            self.listener = self.listen().await.ok();
        }
        let nap = Duration::from_secs(1);
        let Some(listener) = &mut self.listener else { return sleep(nap).await };
        if let Ok(Err(_)) = tokio::time::timeout(nap, listener.recv()).await {
            self.listener = None;
        }
    }

    async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(self.store.pool()).await?;
        listener.listen("dlo_replays").await?;
        Ok(listener)
    }
}

/// What has to be looked after beside: leases that ran out, letters that stayed quiet, the backlog.
pub async fn look_after(replay: Replay) {
    let mut tick = interval(Duration::from_secs(5).min(replay.lease / 2));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while replay.stop.run_until_cancelled(tick.tick()).await.is_some() {
        match replay.store.expire_leases().await {
            Ok(0) => {}
            Ok(attempts) => {
                tracing::warn!(attempts, "replays in doubt: their instance stopped before it recorded an outcome")
            }
            Err(error) => tracing::debug!(%error, "leases not looked at"),
        }
        if let Err(error) = replay.store.resolve_quiet(replay.verdict_window).await {
            tracing::debug!(%error, "quiet replays not looked at");
        }
        if let Ok(waiting) = replay.store.waiting().await {
            for source in &replay.sources {
                let (count, oldest) =
                    waiting.iter().find(|(s, ..)| s == source).map_or((0, 0.0), |(_, n, age)| (*n, *age));
                replay.metrics.replay(source).waiting(count, Duration::from_secs_f64(oldest.max(0.0)));
            }
        }
    }
}
