//! PostgreSQL: what is captured, what is to be replayed, and what people ask.

mod actions;
mod audit;
pub mod claim;
mod copies;
mod copy;
pub mod error;
mod instances;
pub mod json;
mod lease;
mod ledger;
pub mod migrate;
pub mod partitions;
mod positions;
pub mod query;
mod reading;
pub mod replays;
mod returns;
mod row;
pub mod sources;
#[cfg(test)]
pub(crate) mod testing;
pub mod tokens;
pub mod write;

use std::{sync::Arc, time::Duration};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::sync::Semaphore;

pub use self::{
    actions::{Action, ActionError},
    error::WriteError,
    reading::QueryError,
    row::Form,
    write::Stored,
};

/// The database, shared by everything that uses it.
#[derive(Clone, Debug)]
pub struct PgStore {
    pub(crate) pool: PgPool,
    /// Who we are in leases and sessions.
    pub(crate) instance: String,
    /// People's questions share a part of the pool: capture always finds a connection.
    readers: Arc<Semaphore>,
}

/// How to reach the database.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub connect: PgConnectOptions,
    pub max_connections: u32,
    pub instance: String,
}

impl PgStore {
    /// A pool that connects when first used: the database may come later than we do.
    #[must_use]
    pub fn new(options: StoreOptions) -> Self {
        let connect = options
            .connect
            .application_name("dlo")
            // Text in the table is UTF-8 whatever the client's locale says.
            .options([("client_encoding", "UTF8"), ("idle_in_transaction_session_timeout", "120s")]);
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(Duration::from_secs(10))
            .idle_timeout(Duration::from_secs(300))
            // The pool's own tests of a connection wait without end for a peer that vanished, and hold its place.
            .test_before_acquire(false)
            .before_acquire(|connection, _| Box::pin(lease::answers(connection)))
            .after_release(|connection, _| Box::pin(lease::answers(connection)))
            .connect_lazy_with(connect);
        let readers = (options.max_connections as usize / 2).max(1);
        Self { pool, instance: options.instance, readers: Arc::new(Semaphore::new(readers)) }
    }

    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}
