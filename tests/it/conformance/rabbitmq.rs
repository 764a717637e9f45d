//! RabbitMQ of both versions, behind a link that can be cut.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use dead_letter_office::{
    amqp::{connection::Broker, raw::TlsOptions, uri::BrokerAddress},
    message::RawMessage,
    metrics::Metrics,
    source::{
        LedgerError, SessionLedger, Source,
        rabbitmq::{
            RabbitSource, Settings,
            topology::{Queue, QueueType},
        },
        session::Session,
    },
};

use super::{Harness, memory::info};
use crate::support::{
    link::Link,
    rabbit::{HEARTBEAT, Rabbit},
    services,
};

/// Bytes in flight: 64 messages of the 1 MiB that is assumed before any was seen.
const SHARE: usize = 64 << 20;

pub(super) struct RabbitMq {
    rabbit: Rabbit,
    link: Link,
    queue: String,
}

impl RabbitMq {
    pub(super) async fn three(kind: QueueType) -> Option<Self> {
        Some(Self::on(Rabbit::at(services::rabbitmq()).await, kind).await)
    }

    /// Where it is up.
    pub(super) async fn four(kind: QueueType) -> Option<Self> {
        let urls = services::rabbitmq4();
        let address: BrokerAddress = urls.amqp.parse().expect("an address");
        tokio::net::TcpStream::connect((address.host.as_str(), address.port)).await.ok()?;
        Some(Self::on(Rabbit::at(urls).await, kind).await)
    }

    async fn on(rabbit: Rabbit, kind: QueueType) -> Self {
        crate::support::log();
        let queue = rabbit.queue(kind).await;
        let link = Link::to(&rabbit.host_and_port()).await;
        Self { rabbit, link, queue }
    }
}

impl Harness for RabbitMq {
    fn source(&self) -> Box<dyn Source> {
        let mut address = self.rabbit.address();
        address.host = self.link.address.ip().to_string();
        address.port = self.link.address.port();
        address.heartbeat_s = Some(u16::try_from(HEARTBEAT.as_secs()).expect("small"));
        let settings = Settings {
            prefetch: None,
            info: info("rabbitmq"),
            queue: Queue { name: self.queue.clone(), exchange: None, queue_type: QueueType::Quorum },
            broker: Arc::new(Broker::new("broker", vec![address], TlsOptions::default(), "conformance")),
            share: SHARE,
            metrics: Metrics::new().source("orders", "broker"),
        };
        Box::new(RabbitSource::new(settings, Arc::new(Sessions::default())))
    }

    async fn publish(&self, messages: &[RawMessage]) {
        self.rabbit.publish_to(&self.queue, messages).await;
    }

    async fn break_session(&self) {
        self.link.cut();
    }

    async fn wait_for_depth(&self, expected: usize) {
        match expected {
            0 => self.rabbit.wait_for_empty(&self.queue).await,
            _ => self.rabbit.wait_for_ready(&self.queue, u32::try_from(expected).expect("small")).await,
        }
    }

    async fn ready(&self) -> usize {
        self.rabbit.ready(&self.queue).await as usize
    }

    fn held_at_most(&self) -> usize {
        SHARE >> 20
    }

    fn silence(&self) -> Duration {
        HEARTBEAT * 3
    }
}

/// Sessions without a database.
#[derive(Default)]
struct Sessions(AtomicI64);

#[async_trait]
impl SessionLedger for Sessions {
    async fn open(&self, _source: &str, _queue: &str) -> Result<Session, LedgerError> {
        Ok(Session::new(self.0.fetch_add(1, Ordering::Relaxed), 1, 0))
    }

    async fn epoch(&self, _session: &Session) -> Result<Option<i64>, LedgerError> {
        Ok(Some(1))
    }

    async fn raise_epoch(&self, _session: &Session) -> Result<Option<i64>, LedgerError> {
        Ok(Some(2))
    }

    async fn close(&self, _session: &Session, _all_acked: bool) -> Result<(), LedgerError> {
        Ok(())
    }
}
