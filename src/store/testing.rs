//! A database of its own for each test.

use std::{str::FromStr, time::Duration};

use sqlx::{Connection, Executor, PgConnection, postgres::PgConnectOptions};

use super::{PgStore, StoreOptions};

/// A fresh database with the schema in it; gone when dropped.
pub(crate) struct TestDb {
    pub(crate) store: PgStore,
    name: String,
}

fn server() -> PgConnectOptions {
    let url = std::env::var("DLO_TEST_DATABASE_URL").unwrap_or("postgres://dlo:dlo@127.0.0.1:55432/dlo".to_owned());
    PgConnectOptions::from_str(&url).expect("a database address")
}

impl TestDb {
    pub(crate) async fn new() -> Self {
        let db = Self::empty().await;
        db.store.migrate().await.expect("migrates");
        db
    }

    /// Without the schema.
    pub(crate) async fn empty() -> Self {
        let name = format!("dlo_http_{}", uuid::Uuid::new_v4().simple());
        let mut admin = PgConnection::connect_with(&server()).await.expect("PostgreSQL runs: dev/services up");
        admin.execute(format!("CREATE DATABASE {name}").as_str()).await.expect("may create databases");
        let connect = server().database(&name);
        let store = PgStore::new(StoreOptions { connect, max_connections: 4, instance: "test".to_owned() });
        Self { store, name }
    }

    /// Runs SQL like a service would. Returns the id of its RETURNING, or 0.
    pub(crate) async fn sql(&self, sql: &str) -> i64 {
        let row = self.store.pool().fetch_optional(sql).await.expect("SQL runs");
        row.and_then(|row| sqlx::Row::try_get(&row, 0).ok()).unwrap_or(0)
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let work = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let dropped = tokio::time::timeout(Duration::from_secs(10), async {
                    PgConnection::connect_with(&server()).await?.execute(drop.as_str()).await
                });
                let _ = dropped.await;
            });
        });
        let _ = work.join();
    }
}
