//! A pipeline from RabbitMQ into PostgreSQL, in a runtime of its own so that it can crash.

use std::{sync::Arc, time::Duration};

use dead_letter_office::{
    amqp::{connection::Broker, raw::TlsOptions, uri::BrokerAddress},
    capture::{
        batch::Limits,
        pipeline::{self, Capture, WriterDied},
    },
    dead_letter::SourceInfo,
    metrics::{Metrics, SourceMetrics},
    source::rabbitmq::{
        RabbitSource, Settings,
        topology::{Queue, QueueType},
    },
    store::PgStore,
};
use sqlx::postgres::PgConnectOptions;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{SOON, database::Database, database::store_with, eventually, link::Link, rabbit::Rabbit, unique};

/// What a pipeline is made of.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) queue: Queue,
    pub(crate) address: BrokerAddress,
    pub(crate) database: PgConnectOptions,
    pub(crate) limits: Limits,
    pub(crate) writers: usize,
    /// Bytes in flight.
    pub(crate) share: usize,
    pub(crate) prefetch: Option<u16>,
    pub(crate) source: String,
    pub(crate) connections: u32,
}

impl Plan {
    /// Captures a queue that is there already.
    pub(crate) fn new(rabbit: &Rabbit, database: &Database, queue: &str) -> Self {
        Self {
            queue: Queue { name: queue.to_owned(), exchange: None, queue_type: QueueType::Quorum },
            address: rabbit.address(),
            database: database.options(),
            limits: Limits { rows: 1000, bytes: 4 << 20 },
            writers: 2,
            share: 24 << 20,
            prefetch: None,
            source: "orders".to_owned(),
            connections: 6,
        }
    }

    /// Reaches the broker over `link`.
    pub(crate) fn broker_over(mut self, link: &Link) -> Self {
        self.address.host = link.address.ip().to_string();
        self.address.port = link.address.port();
        self
    }

    /// Reaches the database over `link`.
    pub(crate) fn database_over(mut self, link: &Link) -> Self {
        self.database = self.database.host(&link.address.ip().to_string()).port(link.address.port());
        self
    }

    /// A fixed number of messages that may be in hand.
    pub(crate) fn prefetch(mut self, prefetch: u16) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    pub(crate) fn rows(mut self, rows: usize) -> Self {
        self.limits.rows = rows;
        self
    }

    /// Starts receiving.
    pub(crate) fn start(self) -> Office {
        Office::start(self)
    }
}

/// A running pipeline.
pub(crate) struct Office {
    runtime: Option<Runtime>,
    running: Option<JoinHandle<Result<(), WriterDied>>>,
    stop: CancellationToken,
    stop_hard: CancellationToken,
    pub(crate) metrics: SourceMetrics,
    registry: Metrics,
    /// What the broker lists our connection as.
    pub(crate) connection_name: String,
}

impl Office {
    fn start(plan: Plan) -> Self {
        super::log();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("office")
            .enable_all()
            .build()
            .expect("a runtime");
        let registry = Metrics::new();
        let metrics = registry.source(&plan.source, "rabbit");
        let (stop, stop_hard) = (CancellationToken::new(), CancellationToken::new());
        let role = unique("office");
        let connection_name = format!("dlo {role}");
        let (m, s, h) = (metrics.clone(), stop.clone(), stop_hard.clone());
        let running = runtime.spawn(async move {
            let store: Arc<PgStore> = store_with(plan.database, plan.connections);
            let broker = Arc::new(Broker::new("rabbit", vec![plan.address], TlsOptions::default(), &role));
            let info = Arc::new(SourceInfo {
                name: plan.source,
                broker: "rabbit".to_owned(),
                broker_kind: "rabbitmq",
                vhost: Some(broker.vhost().to_owned()),
                service: None,
            });
            let settings = Settings {
                prefetch: plan.prefetch,
                info,
                queue: plan.queue,
                broker: Arc::clone(&broker),
                share: plan.share,
                metrics: m.clone(),
            };
            let source = Box::new(RabbitSource::new(settings, Arc::clone(&store) as _));
            let capture =
                Capture { store, limits: plan.limits, writers: plan.writers, metrics: m, stop: s, stop_hard: h };
            let outcome = pipeline::run(source, capture).await;
            broker.close().await;
            outcome
        });
        Self { runtime: Some(runtime), running: Some(running), stop, stop_hard, metrics, registry, connection_name }
    }

    /// Waits until messages can come.
    pub(crate) async fn receiving(&self) {
        eventually("the source receives", SOON, async || self.metrics.is_up().then_some(())).await;
    }

    /// The orderly end: writes and acks what is in hand.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.ended(SOON).await;
    }

    /// The end after the deadline for the orderly one has passed.
    pub(crate) async fn stop_hard(mut self) {
        self.stop.cancel();
        self.stop_hard.cancel();
        self.ended(Duration::from_secs(20)).await;
    }

    async fn ended(&mut self, within: Duration) {
        let running = self.running.take().expect("running");
        let outcome = tokio::time::timeout(within, running).await.expect("stops in time");
        outcome.expect("not crashed").expect("no writer died");
    }

    /// As `kill -9`: every task ends where it stands, every socket closes.
    pub(crate) fn crash(mut self) {
        self.runtime.take().expect("running").shutdown_background();
    }

    /// The value of one metric of this source.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = String::from_utf8(self.registry.render()).expect("text");
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no metric {name}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a value")
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
