//! What a connection, its channels and its two tasks know together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::RawError;
use super::outbox::Outbox;
use super::state::Channel;

/// Locks are taken in this order: the one in here, a channel's, the outbox's or a consumer's.
#[derive(Debug)]
pub(super) struct Shared {
    links: Mutex<Links>,
    pub(super) outbox: Outbox,
    over: CancellationToken,
    /// The greatest number a channel may have.
    channel_max: u16,
}

#[derive(Debug, Default)]
struct Links {
    /// Why nothing more will come. Set once.
    ended: Option<RawError>,
    /// The broker's reason to take nothing from us.
    blocked: Option<String>,
    /// Every channel the broker may still know.
    channels: HashMap<u16, Arc<Channel>>,
}

impl Shared {
    /// Zero is as many as there are numbers.
    pub(super) fn new(channel_max: u16) -> Self {
        let channel_max = if channel_max == 0 { u16::MAX } else { channel_max };
        Self { links: Mutex::default(), outbox: Outbox::default(), over: CancellationToken::new(), channel_max }
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        // No code that runs under the lock can panic half way through a change.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new channel under the first number that is free.
    pub(super) fn register(&self) -> Result<Arc<Channel>, RawError> {
        let mut links = self.lock();
        if let Some(reason) = &links.ended {
            return Err(reason.clone());
        }
        let free = (1..=self.channel_max).find(|number| !links.channels.contains_key(number));
        let number = free.ok_or(RawError::NoChannel(self.channel_max))?;
        let channel = Arc::new(Channel::new(number));
        links.channels.insert(number, channel.clone());
        Ok(channel)
    }

    pub(super) fn channel(&self, number: u16) -> Option<Arc<Channel>> {
        self.lock().channels.get(&number).cloned()
    }

    /// The broker knows no such channel any more; its number may be used again.
    pub(super) fn forget(&self, number: u16) {
        if let Some(channel) = self.lock().channels.remove(&number) {
            channel.gone();
        }
    }

    /// Ends it for everyone who waits. The first reason stands.
    pub(super) fn end(&self, reason: RawError) {
        let channels = {
            let mut links = self.lock();
            links.ended.get_or_insert(reason.clone());
            std::mem::take(&mut links.channels)
        };
        for channel in channels.into_values() {
            channel.end(reason.clone());
            channel.gone();
        }
        self.outbox.close();
        self.over.cancel();
    }

    pub(super) fn ended(&self) -> Option<RawError> {
        self.lock().ended.clone()
    }

    /// When it has ended.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    pub(super) fn blocked(&self) -> Option<String> {
        self.lock().blocked.clone()
    }

    pub(super) fn set_blocked(&self, reason: Option<String>) {
        self.lock().blocked = reason;
    }
}
