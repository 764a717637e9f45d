//! Deliveries between the reading task and whoever receives them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::shared::Shared;
use super::state::Channel;
use super::{RawDelivery, RawError};

/// Why no more deliveries come.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// As we asked.
    Cancelled,
    Failed(RawError),
}

/// What has come and was not yet taken.
#[derive(Debug)]
pub(super) struct Deliveries {
    queue: Mutex<Queue>,
    more: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<RawDelivery>,
    end: Option<End>,
}

impl Deliveries {
    pub(super) fn new(limit: usize) -> Self {
        Self { queue: Mutex::default(), more: Notify::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run and leaves it empty. Never waits: a broker sends no more than the prefetch allows.
    pub(super) fn push(&self, run: &mut Vec<RawDelivery>) -> Result<(), RawError> {
        {
            let mut queue = self.lock();
            if queue.waiting.len() + run.len() > self.limit {
                return Err(RawError::Protocol("more deliveries than the prefetch allows"));
            }
            queue.waiting.extend(run.drain(..));
        }
        self.more.notify_one();
        Ok(())
    }

    /// The first reason stands.
    pub(super) fn end(&self, end: End) {
        self.lock().end.get_or_insert(end);
        self.more.notify_one();
    }
}

/// The deliveries of a queue, from [`super::RawChannel::consume`].
///
/// What is already here comes first, whatever has happened since. Dropped before it was cancelled and drained, it closes
/// its channel: what nobody received must not be acknowledged by an ack of all up to a later one.
#[derive(Debug)]
pub struct RawConsumer {
    shared: Arc<Shared>,
    channel: Arc<Channel>,
    deliveries: Arc<Deliveries>,
    /// Taken in a run, with one look at the lock.
    here: VecDeque<RawDelivery>,
}

impl RawConsumer {
    pub(super) fn new(shared: Arc<Shared>, channel: Arc<Channel>, deliveries: Arc<Deliveries>) -> Self {
        Self { shared, channel, deliveries, here: VecDeque::new() }
    }

    /// The next delivery, however long it takes; `None` after [`super::RawChannel::cancel`] once everything delivered has
    /// been received. Cancel safe.
    ///
    /// When the broker has cancelled the consumer, or the channel or the connection has ended, each call says why.
    pub async fn next(&mut self) -> Result<Option<RawDelivery>, RawError> {
        loop {
            if let Some(delivery) = self.here.pop_front() {
                return Ok(Some(delivery));
            }
            match self.refill() {
                _ if !self.here.is_empty() => {}
                Some(End::Cancelled) => return Ok(None),
                Some(End::Failed(reason)) => return Err(reason),
                None => self.deliveries.more.notified().await,
            }
        }
    }

    /// Like [`RawConsumer::next`], and `None` when none comes `within` the time.
    pub async fn recv(&mut self, within: Duration) -> Result<Option<RawDelivery>, RawError> {
        timeout(within, self.next()).await.unwrap_or(Ok(None))
    }

    /// A delivery that is here already. How the consumer ended is for [`RawConsumer::next`] to say.
    pub fn ready(&mut self) -> Option<RawDelivery> {
        if self.here.is_empty() {
            self.refill();
        }
        self.here.pop_front()
    }

    /// Takes all there is, and returns how it ended.
    fn refill(&mut self) -> Option<End> {
        let mut queue = self.deliveries.lock();
        std::mem::swap(&mut queue.waiting, &mut self.here);
        queue.end.clone()
    }
}

impl Drop for RawConsumer {
    fn drop(&mut self) {
        let drained = {
            let queue = self.deliveries.lock();
            queue.end.is_some() && queue.waiting.is_empty() && self.here.is_empty()
        };
        if !drained {
            self.channel.abandon(&self.shared, RawError::ClosedByUs);
        }
    }
}
