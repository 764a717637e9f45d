//! What the client and its two tasks know together: who waits for what, and how it ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::message::Text;

use super::{PublishOutcome, RawDelivery, RawError};

/// An answer to a method of ours.
#[derive(Debug)]
pub(super) enum Reply {
    Done,
    /// Messages ready in a queue.
    Declared(u32),
    Got(Option<Box<RawDelivery>>),
}

#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// Why nothing more will come. Set once.
    pub(super) ended: Option<RawError>,
    /// Who waits for an answer, in the order of asking, which is the order of answering. Who no longer waits keeps
    /// the place.
    pub(super) replies: VecDeque<oneshot::Sender<Reply>>,
    pub(super) consumer: Option<mpsc::Sender<RawDelivery>>,
    pub(super) consumer_cancelled: bool,
    pub(super) publish: Option<Publish>,
    /// Publishes so far, by which confirms are numbered.
    pub(super) published: u64,
}

/// The publish under way. One at a time: a returned message carries no number, so it must be the only one.
#[derive(Debug)]
pub(super) struct Publish {
    pub(super) tag: u64,
    /// The broker returns a message before it confirms it.
    pub(super) returned: Option<(u16, Text)>,
    pub(super) done: oneshot::Sender<PublishOutcome>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that runs under the lock can panic half way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it for everyone who waits. The first reason stands.
    pub(super) fn end(&self, reason: RawError) {
        let mut state = self.lock();
        state.ended.get_or_insert(reason);
        state.replies.clear();
        state.consumer = None;
        state.publish = None;
    }

    /// Why it ended.
    pub(super) fn reason(&self) -> RawError {
        self.lock().ended.clone().unwrap_or(RawError::ClosedByUs)
    }
}

impl State {
    pub(super) fn ensure_open(&self) -> Result<(), RawError> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    pub(super) fn reply(&mut self, reply: Reply) -> Result<(), RawError> {
        let waiting = self.replies.pop_front().ok_or(RawError::Protocol("an answer to no question"))?;
        // Whoever asked may have stopped waiting.
        let _ = waiting.send(reply);
        Ok(())
    }

    pub(super) fn deliver(&mut self, delivery: RawDelivery) -> Result<(), RawError> {
        let Some(consumer) = &self.consumer else { return Ok(()) };
        match consumer.try_send(delivery) {
            // A consumer that is no longer read leaves its deliveries unacknowledged, and so does this.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(RawError::Protocol("more deliveries than the prefetch allows"))
            }
        }
    }

    pub(super) fn returned(&mut self, code: u16, text: Text) {
        if let Some(publish) = &mut self.publish {
            publish.returned = Some((code, text));
        }
    }

    /// A confirm covers the publish under way, whether it names it alone or as the last of several.
    pub(super) fn confirmed(&mut self, tag: u64, acked: bool) {
        if let Some(publish) = self.publish.take_if(|publish| publish.tag <= tag) {
            let outcome = match publish.returned {
                Some((code, text)) if acked => PublishOutcome::Returned { code, text: lossy(&text) },
                _ if acked => PublishOutcome::Routed,
                _ => PublishOutcome::Nacked,
            };
            let _ = publish.done.send(outcome);
        }
    }
}

/// A broker's remark for people.
pub(super) fn lossy(text: &Text) -> String {
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}
