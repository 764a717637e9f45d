//! A database of its own for each test.

use std::{str::FromStr, sync::Arc, time::Duration};

use sqlx::{Connection, Executor, PgConnection, postgres::PgConnectOptions};
use tokio_util::sync::CancellationToken;

use super::{PgStore, StoreOptions};
use crate::{
    dead_letter::{CapturedFrom, DeadLetter, Ids, SourceInfo, Status},
    dialect,
    message::{AmqpProperties, RawMessage, Value},
    source::Claim,
};

/// A fresh database with the schema in it; gone when dropped.
pub(crate) struct TestDb {
    pub(crate) store: PgStore,
    name: String,
}

fn server() -> PgConnectOptions {
    let url = std::env::var("DLO_TEST_DATABASE_URL").unwrap_or("postgres://dlo:dlo@127.0.0.1:23432/dlo".to_owned());
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

    /// A letter as capture writes it: published to exchange `shop` with key `orders.created`, died in queue `orders`.
    pub(crate) async fn captured(&self, body: &[u8]) -> i64 {
        let headers = [("tenant".into(), Value::Str("eu-1".into()))].into_iter().collect();
        let properties = AmqpProperties { content_type: Some("text/html".into()), ..AmqpProperties::default() };
        let mut wire = Vec::new();
        crate::message::wire::encode(&mut wire, &RawMessage::amqp(properties, headers, ""), None);
        let insert = sqlx::query_scalar(
            "INSERT INTO dead_letter_queue (service_name, event_type, payload, error_message, traceback, error_class, source, broker,
                 broker_kind, dialect, origin_exchange, origin_routing_key, origin_queue, consumer, body, payload_state, headers, wire)
             VALUES ('shop', 'orders.created', $1::text::jsonb, 'no stock', 'at a.B', 'a.OutOfStock', 'orders',
                 'rabbit', 'rabbitmq', 'rabbitmq-native', 'shop', 'orders.created', 'orders', 'orders', $2, 'complete',
                 '{\"tenant\": \"eu-1\"}', $3) RETURNING id",
        );
        let payload = std::str::from_utf8(body).ok().filter(|text| crate::store::json::is_jsonb(text.as_bytes()));
        insert.bind(payload).bind(body).bind(wire).fetch_one(self.store.pool()).await.expect("a letter")
    }

    /// A Kafka record as capture stores it, with what its dialect says.
    pub(crate) async fn captured_record(&self, message: RawMessage, topic: &str) -> i64 {
        let source = SourceInfo {
            name: "payments".to_owned(),
            broker: "kafka".to_owned(),
            broker_kind: "kafka",
            vhost: None,
            service: None,
        };
        let captured =
            CapturedFrom { topic: Some(topic.into()), partition: Some(0), offset: Some(7), ..CapturedFrom::default() };
        let letter = DeadLetter {
            source: Arc::new(source),
            reading: dialect::read(&message, &captured),
            captured,
            message,
            ids: Ids::default(),
            status: Status::Failed,
            replay_of: None,
            duplicate_of: None,
            session: None,
        };
        let turn = CancellationToken::new();
        turn.cancel();
        let stored = self.store.write(&mut [letter], &mut Claim::None, &turn).await.expect("writes");
        assert_eq!((stored.rows, stored.degraded), (1, 0));
        self.sql("SELECT max(id) FROM dead_letter_queue").await
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
