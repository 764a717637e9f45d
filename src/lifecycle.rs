//! Starting, stopping, and what happens when something stops by itself.

use std::{future::Future, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// After the deadline, to let go of what can be let go of quickly.
const FAREWELL: Duration = Duration::from_secs(1);

/// Two ways to stop: first in order, then at once.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Stop reading; write, ack and record what is in hand.
    pub soft: CancellationToken,
    /// Give up what is in hand: the broker, or the lease, still has it.
    pub hard: CancellationToken,
}

impl Stop {
    /// When to stop waiting for others, so that what is known can still be written down: `after` the order to stop, or
    /// at once with the hard one.
    pub fn last_call(&self, after: Duration) -> CancellationToken {
        let called = self.hard.child_token();
        let (soft, call) = (self.soft.clone(), called.clone());
        tokio::spawn(async move {
            soft.cancelled().await;
            call.run_until_cancelled(sleep(after)).await;
            call.cancel();
        });
        called
    }
}

/// A task that must run until told to stop did not.
#[derive(Debug, thiserror::Error)]
#[error("{name} stopped by itself: {why}")]
pub struct Died {
    pub name: String,
    pub why: String,
}

/// The tasks of the process.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<(String, Result<(), String>)>,
}

impl Tasks {
    /// Starts a task that runs until told to stop.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = Result<(), String>> + Send + 'static) {
        let name = name.into();
        self.set.spawn(async move {
            // A task of its own inside, so that a panic still has a name.
            let outcome = tokio::spawn(task).await.unwrap_or_else(|panic| Err(panic.to_string()));
            (name, outcome)
        });
    }

    /// Runs until a signal or a death, then stops within `deadline`; at once at a second signal.
    pub async fn run(mut self, signals: &mut Signals, stop: &Stop, deadline: Duration) -> Result<(), Died> {
        let mut death = tokio::select! {
            // In this order: what ends because it was told to has not died.
            biased;
            () = signals.next() => None,
            () = stop.soft.cancelled() => None,
            Some(ended) = self.set.join_next() => Some(died(ended)),
        };
        match &death {
            None => tracing::info!(?deadline, "stopping: finishing what is in hand"),
            Some(died) => tracing::error!("{died}; stopping"),
        }
        stop.soft.cancel();
        tokio::select! {
            biased;
            ended = timeout(deadline, self.drain(&mut death)) => if ended.is_err() {
                tracing::warn!("not everything was finished in time: the rest stays with the brokers");
            },
            () = signals.next() => tracing::warn!("second signal: stopping at once"),
        }
        self.cut_off(stop, &mut death).await;
        death.map_or(Ok(()), Err)
    }

    /// The same for tasks inside a task. Signals and deadline are the outer one's, which sees to it that the hard
    /// token comes.
    pub async fn supervise(mut self, stop: &Stop) -> Result<(), Died> {
        let mut death = tokio::select! {
            biased;
            () = stop.soft.cancelled() => None,
            Some(ended) = self.set.join_next() => Some(died(ended)),
        };
        stop.soft.cancel();
        tokio::select! {
            biased;
            () = self.drain(&mut death) => {}
            () = stop.hard.cancelled() => self.cut_off(stop, &mut death).await,
        }
        death.map_or(Ok(()), Err)
    }

    async fn cut_off(&mut self, stop: &Stop, death: &mut Option<Died>) {
        stop.hard.cancel();
        let _ = timeout(FAREWELL, self.drain(death)).await;
    }

    /// Waits for all. One that fails while it stops is a death, too: an inner one that stopped all is seen only here.
    async fn drain(&mut self, death: &mut Option<Died>) {
        while let Some(ended) = self.set.join_next().await {
            let failed = !matches!(ended, Ok((_, Ok(()))));
            if failed {
                let died = died(ended);
                tracing::warn!("{died}");
                death.get_or_insert(died);
            }
        }
    }
}

fn died(ended: Result<(String, Result<(), String>), tokio::task::JoinError>) -> Died {
    match ended {
        Ok((name, Ok(()))) => Died { name, why: "it ended".to_owned() },
        Ok((name, Err(why))) => Died { name, why },
        Err(error) => Died { name: "a task".to_owned(), why: error.to_string() },
    }
}

/// SIGTERM and SIGINT, heard from the moment this is made: before, the system ends the process, or ignores them if it
/// is the first of a container.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next one, also if it came while nobody waited.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_by_itself_is_named_and_stops_the_others() {
        let stop = Stop::default();
        let mut tasks = Tasks::default();
        let soft = stop.soft.clone();
        tasks.spawn("steady", async move {
            soft.cancelled().await;
            Ok(())
        });
        tasks.spawn("brittle", async { Err("it broke".to_owned()) });
        let mut signals = Signals::listen().expect("signals");
        let died = tasks.run(&mut signals, &stop, Duration::from_secs(5)).await.expect_err("a death");
        assert_eq!(died.to_string(), "brittle stopped by itself: it broke");
        assert!(stop.soft.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_stop_in_time_is_given_up() {
        let stop = Stop::default();
        let mut tasks = Tasks::default();
        let hard = stop.hard.clone();
        tasks.spawn("stubborn", async move {
            hard.cancelled().await;
            Ok(())
        });
        stop.soft.cancel();
        let mut signals = Signals::listen().expect("signals");
        tasks.run(&mut signals, &stop, Duration::from_secs(20)).await.expect("an orderly end");
        assert!(stop.hard.is_cancelled());
    }

    #[tokio::test]
    async fn a_death_inside_a_task_is_the_death_of_the_process() {
        let stop = Stop::default();
        let (mut outer, mut inner) = (Tasks::default(), Tasks::default());
        inner.spawn("brittle", async { Err("it broke".to_owned()) });
        let inside = stop.clone();
        outer.spawn("parts", async move { inner.supervise(&inside).await.map_err(|died| died.to_string()) });
        let mut signals = Signals::listen().expect("signals");
        let died = outer.run(&mut signals, &stop, Duration::from_secs(5)).await.expect_err("a death");
        assert!(died.to_string().contains("brittle stopped by itself: it broke"), "{died}");
    }
}
