//! The loops that send letters home, in a runtime of their own so that they can crash.

use std::{collections::HashMap, sync::Arc, time::Duration};

use dead_letter_office::{
    amqp::{connection::Broker, raw::TlsOptions, uri::BrokerAddress},
    metrics::Metrics,
    replay::{self, Publisher, Replay, rabbitmq::RabbitPublisher},
    store::{PgStore, StoreOptions},
};
use sqlx::postgres::PgConnectOptions;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{SOON, database::Database, link::Link, rabbit::Rabbit, unique};

/// How letters are sent home.
#[derive(Clone)]
pub(crate) struct Rules {
    address: BrokerAddress,
    database: PgConnectOptions,
    pub(crate) lease: Duration,
    pub(crate) verdict_window: Duration,
    pub(crate) rate: Option<f64>,
}

impl Rules {
    /// As fast as it goes, and nothing becomes quiet.
    pub(crate) fn new(rabbit: &Rabbit, database: &Database) -> Self {
        Self {
            address: rabbit.address(),
            database: database.options(),
            lease: Duration::from_secs(60),
            verdict_window: Duration::from_secs(600),
            rate: None,
        }
    }

    pub(crate) fn broker_over(mut self, link: &Link) -> Self {
        self.address.host = link.address.ip().to_string();
        self.address.port = link.address.port();
        self
    }

    pub(crate) fn broker_at(mut self, url: &str) -> Self {
        self.address = url.parse().expect("an address");
        self
    }

    pub(crate) fn database_over(mut self, link: &Link) -> Self {
        self.database = self.database.host(&link.address.ip().to_string()).port(link.address.port());
        self
    }

    pub(crate) fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    pub(crate) fn verdict_window(mut self, window: Duration) -> Self {
        self.verdict_window = window;
        self
    }

    pub(crate) fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    pub(crate) fn start(self) -> Clerk {
        Clerk::start(self)
    }
}

/// Loops at work.
pub(crate) struct Clerk {
    runtime: Option<Runtime>,
    running: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Clerk {
    fn start(rules: Rules) -> Self {
        super::log();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("clerk")
            .enable_all()
            .build()
            .expect("a runtime");
        let stop = CancellationToken::new();
        let replay_stop = stop.clone();
        let running = runtime.spawn(async move {
            let instance = unique("clerk");
            let options = StoreOptions { connect: rules.database, max_connections: 8, instance };
            let broker = Arc::new(Broker::new("rabbit", vec![rules.address], TlsOptions::default(), "replay"));
            let publisher: Arc<dyn Publisher> = Arc::new(RabbitPublisher::new(broker));
            let store = Arc::new(PgStore::new(options));
            let replay = Replay {
                store,
                publishers: Arc::new(HashMap::from([("rabbit".to_owned(), publisher)])),
                metrics: Metrics::new(),
                sources: vec!["orders".to_owned()],
                concurrency: 4,
                lease: rules.lease,
                verdict_window: rules.verdict_window,
                rate: rules.rate,
                stop: replay_stop,
                last_call: CancellationToken::new(),
            };
            tokio::join!(replay::run(replay.clone()), replay::look_after(replay));
        });
        Self { runtime: Some(runtime), running: Some(running), stop }
    }

    /// The orderly end: what is in hand is finished.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let running = self.running.take().expect("running");
        tokio::time::timeout(SOON, running).await.expect("stops in time").expect("not crashed");
    }

    /// As `kill -9`: every task ends where it stands, every socket closes.
    pub(crate) fn crash(mut self) {
        self.runtime.take().expect("running").shutdown_background();
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
