//! The loop of one broker: claims attempts while the broker is there and the rate allows, and has them made.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep, sleep_until},
};

use super::{
    Look, Publisher, Replay,
    pace::Pace,
    wake::Woken,
    work::{Made, Work},
};

/// Attempts in hand at once.
const IN_HAND_MAX: usize = 1000;
/// Before a broker that was away, or a database, is tried again.
const AWAY_PAUSE: Duration = Duration::from_secs(2);
/// How often we look who else sends.
const SHARE_EVERY: Duration = Duration::from_secs(5);
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);

pub(super) struct Driver {
    replay: Replay,
    broker: String,
    publisher: Arc<dyn Publisher>,
    woken: Woken,
    /// Our share of the rate.
    pace: Pace,
    shared_at: Option<Instant>,
    /// Claims being worked on.
    work: JoinSet<Made>,
    /// Attempts we hold leases of.
    in_hand: HashSet<i64>,
    /// Where the last claim ended; zero is to begin again.
    after: i64,
    /// The answer to a claim got lost: there may be leases that we know nothing of.
    unsure: bool,
    /// The broker took nothing the last time.
    away: bool,
    complained: Option<Instant>,
}

impl Driver {
    pub(super) fn new(replay: Replay, broker: String, publisher: Arc<dyn Publisher>, woken: Woken) -> Self {
        let pace = Pace::new(replay.rate, Instant::now());
        let (work, in_hand) = (JoinSet::new(), HashSet::new());
        Self {
            replay,
            broker,
            publisher,
            woken,
            pace,
            shared_at: None,
            work,
            in_hand,
            after: 0,
            unsure: false,
            away: false,
            complained: None,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.replay.stop.is_cancelled() {
            self.make_room().await;
            if !self.is_broker_there().await || !self.is_sure().await {
                continue;
            }
            self.share().await;
            let most = (IN_HAND_MAX / self.replay.concurrency.max(1)).max(1);
            match self.pace.take(most, Instant::now()) {
                Ok(allowed) => self.claim(allowed).await,
                Err(at) => self.unless_stopped(sleep_until(at)).await,
            }
        }
        while let Some(made) = self.work.join_next().await {
            self.finished(made);
        }
    }

    /// Waits until another claim may be worked on.
    async fn make_room(&mut self) {
        while let Some(made) = self.work.try_join_next() {
            self.finished(made);
        }
        while self.work.len() >= self.replay.concurrency.max(1) {
            if let Some(made) = self.work.join_next().await {
                self.finished(made);
            }
        }
    }

    fn finished(&mut self, made: Result<Made, JoinError>) {
        match made {
            Ok(made) => {
                if made.not_sent {
                    self.away = true;
                    // It waits again, before those that have not been looked at.
                    self.after = 0;
                }
                for replay in made.replays {
                    self.in_hand.remove(&replay);
                }
            }
            // Its leases run out, and then the attempts are in doubt, which they are.
            Err(error) => tracing::error!(%error, broker = self.broker, "a replay task died"),
        }
    }

    /// While a broker is away its attempts wait in the table, and their letters are not on their way.
    async fn is_broker_there(&mut self) -> bool {
        if !self.away && self.publisher.ready(Look::Glance).await.is_ok() {
            return true;
        }
        self.woken.forget();
        match self.replay.store.is_waiting(&self.broker).await {
            Ok(true) => {}
            Ok(false) => {
                let stop = self.replay.stop.clone();
                stop.run_until_cancelled(self.woken.wait()).await;
                return false;
            }
            Err(error) => {
                self.complain("cannot look for replays", &error);
                self.unless_stopped(sleep(AWAY_PAUSE)).await;
                return false;
            }
        }
        if std::mem::take(&mut self.away) {
            self.unless_stopped(sleep(AWAY_PAUSE)).await;
        }
        if let Err(why) = self.publisher.ready(Look::Ask).await {
            self.complain("replays wait: the broker is not to be had", &why);
            self.away = true;
            return false;
        }
        true
    }

    /// Gives back what may have been leased to us without our knowing.
    async fn is_sure(&mut self) -> bool {
        if !self.unsure {
            return true;
        }
        let in_hand: Vec<i64> = self.in_hand.iter().copied().collect();
        match self.replay.store.give_back(&self.broker, &in_hand).await {
            Ok(attempts) => {
                (self.unsure, self.after) = (false, 0);
                if attempts > 0 {
                    tracing::info!(
                        attempts,
                        broker = self.broker,
                        "leases that got lost on their way to us wait again"
                    );
                }
                true
            }
            Err(error) => {
                self.complain("cannot look for replays", &error);
                self.unless_stopped(sleep(AWAY_PAUSE)).await;
                false
            }
        }
    }

    /// The rate is that of all instances together. Each takes an equal share; one that has nothing to send, or whose
    /// broker is away, leaves its share unused.
    async fn share(&mut self) {
        let Some(rate) = self.replay.rate else { return };
        if self.shared_at.is_some_and(|at| at.elapsed() < SHARE_EVERY) {
            return;
        }
        // When the database cannot be asked nothing can be claimed either.
        if let Ok(instances) = self.replay.store.sending_instances().await {
            let now = Instant::now();
            self.pace.change(Some(rate / f64::from(instances)), now);
            self.shared_at = Some(now);
        }
    }

    async fn claim(&mut self, allowed: usize) {
        self.woken.forget();
        // Before the database's clock starts the lease, so that ours is the stricter one.
        let claimed_at = Instant::now();
        let limit = i64::try_from(allowed).unwrap_or(i64::MAX);
        match self.replay.store.claim(&self.broker, self.after, limit, self.replay.lease).await {
            Ok(leases) => {
                self.pace.give_back(allowed - leases.len().min(allowed));
                let from = self.after;
                // A claim that is not full has seen all there is.
                let last = leases.last().filter(|_| leases.len() == allowed);
                self.after = last.map_or(0, |lease| lease.replay);
                if leases.is_empty() {
                    if from > 0 {
                        return;
                    }
                    let stop = self.replay.stop.clone();
                    stop.run_until_cancelled(self.woken.wait()).await;
                    return;
                }
                self.in_hand.extend(leases.iter().map(|lease| lease.replay));
                let work = Work {
                    replay: self.replay.clone(),
                    broker: self.broker.clone(),
                    publisher: Arc::clone(&self.publisher),
                    claimed_at,
                };
                self.work.spawn(work.make(leases));
            }
            Err(error) => {
                self.pace.give_back(allowed);
                self.unsure = true;
                self.complain("cannot look for replays", &error);
                self.unless_stopped(sleep(AWAY_PAUSE)).await;
            }
        }
    }

    /// An outage is tried every two seconds and told every half minute.
    fn complain(&mut self, what: &'static str, why: &dyn std::fmt::Display) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
            self.complained = Some(Instant::now());
            tracing::warn!(broker = self.broker, error = %why, "{what}");
        }
    }

    async fn unless_stopped(&self, wait: impl Future<Output = ()>) {
        self.replay.stop.run_until_cancelled(wait).await;
    }
}
