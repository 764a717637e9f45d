//! A connection on loan from the pool, and bounds on every wait for the database.

use std::time::Duration;

use sqlx::{Connection, PgConnection, pool::PoolConnection, postgres::Postgres};
use tokio::time::timeout;

use super::PgStore;

/// A statement that takes longer than this means a peer that is gone without saying so.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(60);

/// For one round trip on a connection that nothing is under way on: shorter than the pool's own wait for a connection,
/// so that it gets past several dead ones.
const PING_DEADLINE: Duration = Duration::from_secs(3);

/// Given back to the pool by [`Lease::finish`] only. Dropped before that, by an error or because nobody waits any
/// more, the connection is closed: it may be in the middle of an answer. The server then rolls back.
#[derive(Debug)]
pub(super) struct Lease(Option<PoolConnection<Postgres>>);

impl Lease {
    pub(super) async fn take(store: &PgStore) -> Result<Self, sqlx::Error> {
        Ok(Self(Some(within(store.pool.acquire()).await?)))
    }

    #[expect(clippy::expect_used, reason = "taken only by finish, which consumes self, and by drop")]
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect("on loan until finished")
    }

    pub(super) fn finish(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

/// Bounds a wait on the database from our side: a peer that vanished without a word never answers.
pub(super) async fn within<T>(wait: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    within_for(STATEMENT_DEADLINE, wait).await
}

pub(super) async fn within_for<T>(
    deadline: Duration,
    wait: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(deadline, wait).await.unwrap_or_else(|_| {
        let silent = format!("no answer for {} s", deadline.as_secs());
        Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, silent)))
    })
}

/// Whether the other end is still there. An error closes the connection.
pub(super) async fn answers(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    within_for(PING_DEADLINE, connection.ping()).await.map(|()| true)
}

/// Data over a link of 10 kB/s still arrives; a dead one is given up after ten minutes at most.
pub(super) fn copy_deadline(bytes: usize) -> Duration {
    STATEMENT_DEADLINE + Duration::from_millis((bytes as u64 / 8).min(540_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::WriteError;

    #[tokio::test(start_paused = true)]
    async fn a_database_that_never_answers_is_given_up_and_counts_as_away() {
        let silence = std::future::pending::<Result<(), sqlx::Error>>();

        let given_up = within(silence).await.expect_err("not for ever");

        assert!(matches!(WriteError::from(given_up), WriteError::Unavailable(_)));
    }

    #[test]
    fn a_large_copy_is_given_longer_but_not_for_ever() {
        assert_eq!(copy_deadline(0), STATEMENT_DEADLINE);
        assert!(copy_deadline(1 << 20) > Duration::from_secs(120));
        assert_eq!(copy_deadline(1 << 30), Duration::from_secs(600));
    }
}
