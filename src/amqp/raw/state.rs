//! What a channel and the reading task know together: who waits for what, and how it ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::connection::closing;
use super::consumer::{Deliveries, End};
use super::method::CHANNEL_CLOSE;
use super::publishes::Publishes;
use super::shared::Shared;
use super::{RawDelivery, RawError};
use crate::message::Text;

/// An answer to a method of ours.
#[derive(Debug)]
pub(super) enum Reply {
    Done,
    /// Messages ready in a queue.
    Declared(u32),
    Got(Option<Box<RawDelivery>>),
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) number: u16,
    state: Mutex<State>,
    /// The broker knows no channel of this number any more.
    gone: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Why nothing more will come. Set once.
    pub(super) ended: Option<RawError>,
    /// Who waits for an answer, in the order of asking, which is the order of answering. Who no longer waits keeps
    /// the place.
    pub(super) replies: VecDeque<oneshot::Sender<Reply>>,
    pub(super) consumer: Option<Consuming>,
    /// Consumers so far, by which they are named.
    pub(super) consumers: u64,
    pub(super) publishes: Publishes,
}

/// The consumer there is.
#[derive(Debug)]
pub(super) struct Consuming {
    pub(super) tag: Text,
    pub(super) deliveries: Arc<Deliveries>,
}

impl Channel {
    pub(super) fn new(number: u16) -> Self {
        Self { number, state: Mutex::default(), gone: CancellationToken::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that runs under the lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it for everyone who waits. The first reason stands.
    pub(super) fn end(&self, reason: RawError) {
        self.lock().end(reason);
    }

    /// Ends it from our side, and tells the broker. Its number stays taken until the broker has answered.
    pub(super) fn abandon(&self, shared: &Shared, reason: RawError) {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.end(reason);
            shared.outbox.push(closing(self.number, CHANNEL_CLOSE), None);
        }
    }

    /// The broker has closed it, or the connection with it.
    pub(super) fn gone(&self) {
        self.gone.cancel();
    }

    /// When the broker has closed it.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + use<> {
        self.gone.clone().cancelled_owned()
    }

    /// Hands a run of deliveries to the consumer.
    pub(super) fn deliver(&self, run: &mut Vec<RawDelivery>) -> Result<(), RawError> {
        let deliveries = self.lock().consumer.as_ref().map(|consumer| consumer.deliveries.clone());
        match deliveries {
            Some(deliveries) => deliveries.push(run),
            None => {
                run.clear();
                Ok(())
            }
        }
    }
}

impl State {
    pub(super) fn ensure_open(&self) -> Result<(), RawError> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    fn end(&mut self, reason: RawError) {
        self.replies.clear();
        self.publishes.clear();
        if let Some(consumer) = self.consumer.take() {
            consumer.deliveries.end(End::Failed(reason.clone()));
        }
        self.ended.get_or_insert(reason);
    }

    /// An error is why the connection ends.
    pub(super) fn reply(&mut self, reply: Reply) -> Result<(), RawError> {
        if self.ended.is_some() {
            return Ok(());
        }
        let waiting = self.replies.pop_front().ok_or(RawError::Protocol("an answer to no question"))?;
        // Whoever asked may have stopped waiting.
        let _ = waiting.send(reply);
        Ok(())
    }

    /// Ends the consumer of that name, if there still is one.
    pub(super) fn consumer_over(&mut self, tag: &Text, end: End) {
        if let Some(consumer) = self.consumer.take_if(|consumer| consumer.tag == *tag) {
            consumer.deliveries.end(end);
        }
    }
}

/// A broker's remark for people.
pub(super) fn lossy(text: &Text) -> String {
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}
