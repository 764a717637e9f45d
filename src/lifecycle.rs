//! Starting, stopping, and what happens when something stops by itself.

use std::{future::Future, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Two ways to stop: first in order, then at once.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Stop reading; write, ack and record what is in hand.
    pub soft: CancellationToken,
    /// Give up what is in hand: the broker, or the lease, still has it.
    pub hard: CancellationToken,
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

    /// Runs until a signal or a death, then stops within `deadline`.
    pub async fn run(self, stop: &Stop, deadline: Duration) -> Result<(), Died> {
        self.until(signalled(), stop, deadline).await
    }

    /// The same for tasks inside a task: signals are the outer one's.
    pub async fn supervise(self, stop: &Stop, deadline: Duration) -> Result<(), Died> {
        self.until(std::future::pending(), stop, deadline).await
    }

    async fn until(mut self, end: impl Future<Output = ()>, stop: &Stop, deadline: Duration) -> Result<(), Died> {
        let death = tokio::select! {
            () = end => None,
            () = stop.soft.cancelled() => None,
            Some(ended) = self.set.join_next() => Some(died(ended)),
        };
        match &death {
            None => tracing::debug!(deadline = ?deadline, "stopping: finishing what is in hand"),
            Some(died) => tracing::error!("{died}; stopping"),
        }
        stop.soft.cancel();
        tokio::select! {
            biased;
            ended = timeout(deadline, self.drain()) => if ended.is_err() {
                tracing::warn!("not everything was finished in time: the rest stays with the brokers");
            },
            () = signalled() => tracing::warn!("second signal: stopping at once"),
        }
        stop.hard.cancel();
        let _ = timeout(Duration::from_secs(2), self.drain()).await;
        death.map_or(Ok(()), Err)
    }

    async fn drain(&mut self) {
        while let Some(ended) = self.set.join_next().await {
            if let Ok((name, Err(why))) = ended {
                tracing::warn!(task = name, why, "ended with an error while stopping");
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

/// SIGTERM or SIGINT.
async fn signalled() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        // Without signals there is still the hard way to stop a process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
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
        let died = tasks.run(&stop, Duration::from_secs(5)).await.expect_err("a death");
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
        tasks.run(&stop, Duration::from_secs(20)).await.expect("an orderly end");
        assert!(stop.hard.is_cancelled());
    }
}
