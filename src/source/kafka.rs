//! Capture from Kafka: topics read by one consumer group.
//!
//! A thread polls ([`pump`]); what it takes waits in a buffer for [`Source::recv`]. Positions are the database's; each
//! assignment of a partition is a session ([`shared`]), which begins where the database says ([`resolve`], [`begin`]).

mod begin;
mod broker;
mod join;
mod pump;
mod resolve;
mod shared;
mod topics;
mod verify;
mod watch;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

pub use self::topics::Topics;
use self::{pump::Pump, shared::Shared};
use super::{AckToken, Acked, Claim, Delivery, PositionLedger, Source, SourceError, Unclaimed};
use crate::{
    dead_letter::{CapturedFrom, SourceInfo},
    kafka::{client::Cluster, native::Record},
    message::{KafkaProperties, RawMessage},
    metrics::SourceMetrics,
};

/// How long a consumer may take to leave its group.
const LEAVE_DEADLINE: Duration = Duration::from_secs(8);

/// What makes one Kafka source.
#[derive(Clone, Debug)]
pub struct Settings {
    pub info: Arc<SourceInfo>,
    pub cluster: Cluster,
    pub group: String,
    pub topics: Topics,
    /// Where a group without a position begins.
    pub start: Start,
    /// Bytes of the memory budget that this source may hold.
    pub share: usize,
    pub metrics: SourceMetrics,
}

/// Where to begin without a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Earliest,
    Latest,
    /// Milliseconds since 1970.
    At(i64),
}

/// A [`Source`] of Kafka topics.
#[derive(Debug)]
pub struct KafkaSource {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    /// Resolves when the thread has ended.
    ended: Option<oneshot::Receiver<()>>,
}

impl KafkaSource {
    /// Begins at once, in a thread of its own.
    pub fn start(settings: Settings, ledger: Arc<dyn PositionLedger>) -> std::io::Result<Self> {
        let settings = Arc::new(settings);
        let shared = Arc::new(Shared::new((settings.share / 3).max(1), settings.metrics.clone()));
        settings.metrics.down("not connected yet".to_owned());
        let pump = Pump {
            settings: Arc::clone(&settings),
            shared: Arc::clone(&shared),
            ledger,
            runtime: Handle::current(),
            shown: Arc::default(),
        };
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name(format!("kafka {}", settings.info.name)).spawn(move || {
            pump.run();
            let _ = end.send(());
        })?;
        Ok(Self { settings, shared, ended: Some(ended) })
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Record {
    /// Of key and value, which are all that may be large.
    fn size(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len)
    }

    fn into_delivery(self, token: AckToken) -> Delivery {
        let captured = CapturedFrom {
            topic: Some(self.partition.topic),
            partition: Some(self.partition.number),
            offset: Some(self.offset),
            ..CapturedFrom::default()
        };
        let properties = KafkaProperties { timestamp: self.timestamp, leader_epoch: self.leader_epoch };
        let message = RawMessage::kafka(properties, self.key, self.headers, self.value);
        Delivery { message, captured, token }
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn info(&self) -> &Arc<SourceInfo> {
        &self.settings.info
    }

    async fn recv(&mut self, max: usize) -> Result<Vec<Delivery>, SourceError> {
        loop {
            // Registered before looking, or what comes in between would be slept through.
            let arrived = self.shared.arrived.notified();
            match self.shared.take(max) {
                None => return Err(SourceError::Closed),
                Some(run) if !run.is_empty() => return Ok(run),
                Some(_) => arrived.await,
            }
        }
    }

    async fn claim(&mut self, batch: &mut Vec<Delivery>) -> Option<Claim> {
        self.shared.claim(batch).map(Claim::Positions)
    }

    async fn reclaim(&mut self, claim: Claim) -> Result<Claim, Unclaimed> {
        let Claim::Positions(mut claim) = claim else { return Ok(claim) };
        self.shared.went_astray(&mut claim);
        Ok(Claim::Positions(claim))
    }

    async fn ack(&mut self, tokens: Vec<AckToken>) -> Acked {
        self.shared.ack(&tokens)
    }

    async fn close(&mut self) {
        self.settings.metrics.down("stopped".to_owned());
        self.shared.close();
        if let Some(ended) = self.ended.take() {
            // A broker that is away cannot be told; the group finds out by itself.
            let _ = timeout(LEAVE_DEADLINE, ended).await;
        }
    }
}
