//! A database of one test: made, migrated, and dropped with it.

use std::{collections::BTreeMap, sync::Arc};

use dead_letter_office::store::{PgStore, StoreOptions};
use sha2::{Digest, Sha256};
use sqlx::{Connection, Executor, PgConnection, PgPool, postgres::PgConnectOptions};

use super::{clean_up, services, unique};

pub(crate) struct Database {
    /// The server, by the database everybody has.
    server: PgConnectOptions,
    pub(crate) name: String,
    /// For looking, past whatever the store's connections suffer.
    pub(crate) pool: PgPool,
}

impl Database {
    /// Migrated, with its partitions.
    pub(crate) async fn fresh() -> Self {
        Self::fresh_at(&services::database_url()).await
    }

    pub(crate) async fn fresh_at(url: &str) -> Self {
        let database = Self::empty_at(url).await;
        let store = database.store();
        store.migrate().await.expect("migrated");
        store.maintain(now(), None).await.expect("partitions made");
        store.pool().close().await;
        database
    }

    pub(crate) async fn empty() -> Self {
        Self::empty_at(&services::database_url()).await
    }

    pub(crate) async fn empty_at(url: &str) -> Self {
        Self::made(url.parse().expect("a database address"), None).await
    }

    /// A backup of it, as it is now.
    pub(crate) async fn copy(&self) -> Self {
        // A database that somebody is connected to is not copied, and our own connections come again by themselves.
        self.execute_on_server(&format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ))
        .await;
        Self::made(self.server.clone(), Some(&self.name)).await
    }

    async fn made(server: PgConnectOptions, template: Option<&str>) -> Self {
        let name = unique("db").replace('-', "_");
        let template = template.map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
        let mut connection = PgConnection::connect_with(&server).await.expect("PostgreSQL answers");
        connection.execute(format!("CREATE DATABASE {name}{template}").as_str()).await.expect("created");
        let pool = sqlx::postgres::PgPoolOptions::new()
            .max_connections(2)
            .connect_lazy_with(server.clone().database(&name).application_name("dlo it"));
        Self { server, name, pool }
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// Where the server is, for a link in front of it.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.server.get_host(), self.server.get_port())
    }

    pub(crate) fn store(&self) -> Arc<PgStore> {
        store_with(self.options(), 6)
    }

    pub(crate) async fn execute(&self, sql: &str) {
        self.pool.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Changes something of the whole database, from outside of it.
    pub(crate) async fn execute_on_server(&self, sql: &str) {
        let mut connection = PgConnection::connect_with(&self.server).await.expect("PostgreSQL answers");
        connection.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub(crate) async fn scalar<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// `None` while the database does not answer.
    pub(crate) async fn try_scalar<T>(&self, sql: &str) -> Option<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.ok()
    }

    pub(crate) async fn count(&self) -> i64 {
        self.scalar("SELECT count(*) FROM dead_letter_queue").await
    }

    /// Letters by status.
    /// Asks for every letter to be sent to `queue`.
    pub(crate) async fn request_replays_to(&self, queue: &str) {
        let insert = format!(
            "INSERT INTO dlo_replays (letter_id, letter_created_at, token, source, target, requested_by)
             SELECT id, created_at, gen_random_uuid(), source, '{{\"queue\": \"{queue}\"}}', 'it' FROM dead_letter_queue"
        );
        self.execute(&insert).await;
    }

    /// Attempts by state and verdict.
    pub(crate) async fn replays(&self) -> BTreeMap<String, i64> {
        let sql = "SELECT concat_ws(' ', state, verdict), count(*) FROM dlo_replays GROUP BY 1";
        let rows: Vec<(String, i64)> = sqlx::query_as(sql).fetch_all(&self.pool).await.expect("replays");
        rows.into_iter().collect()
    }

    pub(crate) async fn statuses(&self) -> BTreeMap<String, i64> {
        let rows: Vec<(String, i64)> = sqlx::query_as("SELECT status, count(*) FROM dead_letter_queue GROUP BY status")
            .fetch_all(&self.pool)
            .await
            .expect("counted");
        rows.into_iter().collect()
    }

    /// How many letters are `FAILED`, and the order-free checksum of their bodies.
    pub(crate) async fn failed(&self) -> Tally {
        let (count, sum): (i64, String) = sqlx::query_as(
            "SELECT count(*), coalesce(sum(('x' || encode(substr(sha256(coalesce(body, '')), 1, 7), 'hex'))::bit(56)::bigint::numeric), 0)::text
             FROM dead_letter_queue WHERE status = 'FAILED'",
        )
        .fetch_one(&self.pool)
        .await
        .expect("summed");
        Tally { count: usize::try_from(count).expect("a count"), sum: sum.parse().expect("a number") }
    }

    /// Ends every connection of the store.
    pub(crate) async fn terminate_connections(&self) -> i64 {
        self.scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'dlo'",
        )
        .await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        clean_up(async move {
            if let Ok(mut connection) = PgConnection::connect_with(&server).await {
                let _ = connection.execute(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)").as_str()).await;
            }
        });
    }
}

pub(crate) fn store_with(connect: PgConnectOptions, max_connections: u32) -> Arc<PgStore> {
    Arc::new(PgStore::new(StoreOptions { connect, max_connections, instance: "it".to_owned() }))
}

/// How many bodies there are and an order-free checksum of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: usize,
    pub(crate) sum: u128,
}

impl Tally {
    pub(crate) fn of<B: AsRef<[u8]>>(bodies: impl IntoIterator<Item = B>) -> Self {
        bodies.into_iter().fold(Self::default(), |tally, body| {
            let digest = Sha256::digest(body.as_ref());
            let head = digest[..7].iter().fold(0u128, |head, byte| head << 8 | u128::from(*byte));
            Self { count: tally.count + 1, sum: tally.sum + head }
        })
    }
}

/// The tests' clock.
#[expect(clippy::disallowed_methods, reason = "tests meet real partitions of the real month")]
pub(crate) fn now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}
