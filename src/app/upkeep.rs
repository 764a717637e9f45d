//! What every instance does now and then: says that it is there, keeps partitions ahead, counts letters.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::{clock::Clock, metrics::Metrics, store::PgStore};

const EVERY: Duration = Duration::from_secs(15);
/// Retention of a large table takes its time.
const ROUND_DEADLINE: Duration = Duration::from_secs(300);
const MAINTAIN_EVERY: Duration = Duration::from_secs(600);

pub(super) async fn run(
    store: Arc<PgStore>,
    metrics: Metrics,
    host: String,
    parts: Vec<&'static str>,
    retention: Duration,
    stop: CancellationToken,
) -> Result<(), String> {
    let clock = Clock::system();
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut maintained: Option<Instant> = None;
    let mut count_at = Instant::now();
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        let due = maintained.is_none_or(|at| at.elapsed() >= MAINTAIN_EVERY);
        let round = round(&store, &host, &parts, due.then_some((&clock, retention)));
        // All of it can be left half done; a database that vanished would otherwise hold up everything for ever.
        match stop.run_until_cancelled(timeout(ROUND_DEADLINE, round)).await {
            Some(Ok(true)) => maintained = Some(Instant::now()),
            Some(Ok(false)) | None => {}
            Some(Err(_)) => tracing::warn!("the database does not answer: presence and counts are out of date"),
        }
        if Instant::now() >= count_at {
            let began = Instant::now();
            stop.run_until_cancelled(timeout(ROUND_DEADLINE, count(&store, &metrics))).await;
            // A count walks through the whole table: the longer it takes, the rarer it is.
            count_at = Instant::now() + began.elapsed() * 60;
        }
    }
    Ok(())
}

/// Says whether partitions were maintained.
async fn round(store: &PgStore, host: &str, parts: &[&str], maintenance: Option<(&Clock, Duration)>) -> bool {
    if let Err(error) = store.present(host, env!("CARGO_PKG_VERSION"), parts).await {
        tracing::debug!(%error, "presence not recorded");
        return false;
    }
    let mut maintained = false;
    if let Some((clock, retention)) = maintenance {
        match store.maintain(clock.now(), Some(retention)).await {
            Ok(done) => {
                maintained = true;
                if done != Default::default() {
                    tracing::info!(
                        created = done.created,
                        moved = done.moved,
                        removed = done.removed,
                        dropped = done.dropped,
                        "partitions maintained"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, "partitions not maintained, trying again"),
        }
    }
    maintained
}

async fn count(store: &PgStore, metrics: &Metrics) {
    match store.count_letters().await {
        Ok(Some(counts)) => metrics.set_letters(counts.iter().map(|(s, t, n)| (s.as_str(), t.as_str(), *n))),
        Ok(None) => metrics.set_letters(std::iter::empty()),
        Err(error) => tracing::debug!(%error, "letters not counted"),
    }
}
