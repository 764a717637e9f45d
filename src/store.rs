//! PostgreSQL: what is captured, what is to be replayed, and what people ask.

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
mod returns;
mod row;
pub mod write;

use std::time::Duration;

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

pub use self::{error::WriteError, row::Form, write::Stored};

/// The database, shared by everything that uses it.
#[derive(Clone, Debug)]
pub struct PgStore {
    pub(crate) pool: PgPool,
    /// Who we are in leases and sessions.
    pub(crate) instance: String,
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
            .connect_lazy_with(connect);
        Self { pool, instance: options.instance }
    }

    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}
