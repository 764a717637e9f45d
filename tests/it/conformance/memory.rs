//! The source in memory.

use std::{sync::Arc, time::Duration};

use dead_letter_office::{
    dead_letter::SourceInfo,
    message::RawMessage,
    source::{
        Source,
        memory::{MemoryBroker, MemorySource},
    },
};

use super::Harness;

const PREFETCH: usize = 64;

pub(super) struct Memory(MemoryBroker);

impl Default for Memory {
    fn default() -> Self {
        Self(MemoryBroker::new(PREFETCH))
    }
}

pub(super) fn info(kind: &'static str) -> Arc<SourceInfo> {
    Arc::new(SourceInfo {
        name: "orders".to_owned(),
        broker: "broker".to_owned(),
        broker_kind: kind,
        vhost: None,
        service: None,
    })
}

impl Harness for Memory {
    fn source(&self) -> Box<dyn Source> {
        Box::new(MemorySource::new(info("memory"), self.0.clone()))
    }

    async fn publish(&self, messages: &[RawMessage]) {
        for message in messages {
            self.0.publish(message.clone());
            tokio::task::yield_now().await;
        }
    }

    async fn break_session(&self) {
        self.0.break_session();
    }

    async fn wait_for_depth(&self, expected: usize) {
        assert_eq!(self.0.depth(), expected);
    }

    async fn ready(&self) -> usize {
        self.0.ready()
    }

    fn held_at_most(&self) -> usize {
        PREFETCH
    }

    fn silence(&self) -> Duration {
        Duration::ZERO
    }
}
