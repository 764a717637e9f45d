//! Replay: claim → publish → record.
//!
//! HTTP and the command line only insert attempts; these loops, one a broker in any number of instances, make them. An
//! attempt is recorded as routed only against a [`Confirmed`], which only a publisher can make.
//!
//! A lease is used up in order: what is not handed to the publisher in its first half is not sent; the broker has until
//! its third quarter to answer; the last one is for the record. What is not recorded by its end is in doubt.

mod attempt;
mod driver;
pub mod kafka;
pub mod pace;
pub mod publisher;
pub mod rabbitmq;
mod wake;
mod work;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use self::driver::Driver;
pub use self::publisher::{Confirmed, Look, Patience, PublishError, Publisher};
use crate::{metrics::Metrics, store::PgStore};

/// What the loops need.
#[derive(Clone)]
pub struct Replay {
    pub store: Arc<PgStore>,
    /// By the broker's name in the configuration.
    pub publishers: Arc<HashMap<String, Arc<dyn Publisher>>>,
    pub metrics: Metrics,
    /// Sources whose series exist from the start.
    pub sources: Vec<String>,
    /// Claims of one broker that are worked on at once: while one is published, others are read and recorded. Together
    /// they have a thousand attempts in hand, whatever their number.
    pub concurrency: usize,
    pub lease: Duration,
    pub verdict_window: Duration,
    /// Publishes a second to each broker, by all instances together; `None` is as fast as it goes.
    pub rate: Option<f64>,
    pub stop: CancellationToken,
    /// Comes some time after `stop`: what the broker has not answered by then is in doubt, and what has not been sent
    /// waits for another instance.
    pub last_call: CancellationToken,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("rate", &self.rate).field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Runs until told to stop; then finishes the attempts it holds. Dropped, it leaves them in doubt.
pub async fn run(replay: Replay) {
    if replay.publishers.is_empty() {
        // Nowhere to send to.
        return replay.stop.cancelled().await;
    }
    let (wake, woken) = wake::channel(Arc::clone(&replay.store));
    let drivers: FuturesUnordered<_> = (replay.publishers.iter())
        .map(|(broker, publisher)| {
            Driver::new(replay.clone(), broker.clone(), Arc::clone(publisher), woken.clone()).run()
        })
        .collect();
    tokio::select! {
        () = drivers.collect::<()>() => {}
        () = wake.listen() => {}
    }
    for publisher in replay.publishers.values() {
        publisher.close().await;
    }
}

/// What has to be looked after beside: leases that ran out, letters that stayed quiet, the backlog.
pub async fn look_after(replay: Replay) {
    const LEAST: Duration = Duration::from_millis(100);
    let mut tick = interval((replay.lease / 4).clamp(LEAST, Duration::from_secs(5)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // All letters whose window is open are looked through each time.
    let mut quiet = interval((replay.verdict_window / 20).clamp(LEAST, Duration::from_secs(30)));
    quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = replay.stop.cancelled() => return,
            _ = tick.tick() => {
                expire(&replay).await;
                show_backlog(&replay).await;
            }
            _ = quiet.tick() => resolve_quiet(&replay).await,
        }
    }
}

async fn expire(replay: &Replay) {
    match replay.store.expire_leases().await {
        Ok(0) => {}
        Ok(attempts) => {
            tracing::warn!(attempts, "replays in doubt: their instance stopped before it recorded an outcome");
        }
        Err(error) => tracing::debug!(%error, "leases not looked at"),
    }
}

async fn resolve_quiet(replay: &Replay) {
    while !replay.stop.is_cancelled() {
        match replay.store.resolve_quiet(replay.verdict_window).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return tracing::debug!(%error, "quiet replays not looked at"),
        }
    }
}

async fn show_backlog(replay: &Replay) {
    let Ok(waiting) = replay.store.waiting().await else { return };
    for source in &replay.sources {
        let (count, oldest) = waiting.iter().find(|(s, ..)| s == source).map_or((0, 0.0), |(_, n, age)| (*n, *age));
        replay.metrics.replay(source).waiting(count, Duration::from_secs_f64(oldest.max(0.0)));
    }
}
