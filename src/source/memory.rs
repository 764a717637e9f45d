//! A source in memory, for tests: the same contract as a broker's, with hands on the broker's side.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{AckToken, Acked, Claim, Delivery, Source, SourceError, Unclaimed};
use crate::{
    dead_letter::{CapturedFrom, SourceInfo},
    message::RawMessage,
};

/// The broker's side: one queue.
#[derive(Clone, Debug, Default)]
pub struct MemoryBroker {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<(RawMessage, bool)>,
    unacked: VecDeque<(u64, RawMessage)>,
    session: u64,
    next_tag: u64,
    prefetch: usize,
}

impl MemoryBroker {
    /// A broker that hands out at most `prefetch` messages before it wants acks.
    #[must_use]
    pub fn new(prefetch: usize) -> Self {
        let broker = Self::default();
        broker.state().prefetch = prefetch;
        broker
    }

    pub fn publish(&self, message: RawMessage) {
        self.state().ready.push_back((message, false));
        self.changed.notify_waiters();
    }

    /// The connection breaks: everything unacked is ready again, in its old place, flagged as redelivered.
    pub fn break_session(&self) {
        self.state().end_session();
        self.changed.notify_waiters();
    }

    /// Messages that nobody has acked, handed out or not.
    #[must_use]
    pub fn depth(&self) -> usize {
        let state = self.state();
        state.ready.len() + state.unacked.len()
    }

    /// Messages that have not been handed out.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.state().ready.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end_session(&mut self) {
        while let Some((_, message)) = self.unacked.pop_back() {
            self.ready.push_front((message, true));
        }
        self.session += 1;
        self.next_tag = 0;
    }

    fn deliver(&mut self, max: usize) -> Vec<Delivery> {
        let mut run = Vec::new();
        while run.len() < max && self.unacked.len() < self.prefetch {
            let Some((message, redelivered)) = self.ready.pop_front() else { break };
            self.next_tag += 1;
            self.unacked.push_back((self.next_tag, message.clone()));
            let captured = CapturedFrom { queue: Some("memory".into()), redelivered, ..CapturedFrom::default() };
            run.push(Delivery {
                message,
                captured,
                token: AckToken { session: self.session, position: self.next_tag },
            });
        }
        run
    }
}

/// A [`Source`] of a [`MemoryBroker`].
#[derive(Debug)]
pub struct MemorySource {
    info: Arc<SourceInfo>,
    broker: MemoryBroker,
    closed: bool,
}

impl MemorySource {
    #[must_use]
    pub fn new(info: Arc<SourceInfo>, broker: MemoryBroker) -> Self {
        Self { info, broker, closed: false }
    }
}

#[async_trait]
impl Source for MemorySource {
    fn info(&self) -> &Arc<SourceInfo> {
        &self.info
    }

    async fn recv(&mut self, max: usize) -> Result<Vec<Delivery>, SourceError> {
        loop {
            if self.closed {
                return Err(SourceError::Closed);
            }
            // Registered before looking, or a publish in between would be slept through.
            let changed = self.broker.changed.notified();
            let run = self.broker.state().deliver(max);
            if !run.is_empty() {
                return Ok(run);
            }
            changed.await;
        }
    }

    async fn claim(&mut self, batch: &mut Vec<Delivery>) -> Option<Claim> {
        let session = self.broker.state().session;
        batch.retain(|delivery| delivery.token.session == session);
        (!batch.is_empty()).then_some(Claim::None)
    }

    async fn reclaim(&mut self, claim: Claim) -> Result<Claim, Unclaimed> {
        Ok(claim)
    }

    async fn ack(&mut self, tokens: Vec<AckToken>) -> Acked {
        let mut state = self.broker.state();
        let mut acked = Acked::default();
        for token in tokens {
            if token.session != state.session {
                acked.stale += 1;
                continue;
            }
            state.unacked.retain(|(tag, _)| *tag != token.position);
            acked.sent += 1;
        }
        drop(state);
        self.broker.changed.notify_waiters();
        acked
    }

    async fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.broker.break_session();
        }
    }
}
