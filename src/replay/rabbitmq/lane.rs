//! The channel of one exchange, with as many messages under way as it has shown to bear.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::amqp::{connection::Broker, raw::RawChannel};

/// Messages without a verdict.
const WIDTH_MAX: usize = 1000;

/// The first message goes alone: a broker that refuses the exchange refuses that one and no other. Each verdict makes
/// room for one more, so the width doubles with every round trip.
#[derive(Debug)]
pub(super) struct Lane {
    channel: OnceCell<RawChannel>,
    places: Semaphore,
    width: AtomicUsize,
    width_max: usize,
    /// Why there is no channel.
    failed: Mutex<Option<String>>,
}

/// The right to one publish.
pub(super) struct Place<'a> {
    pub(super) channel: &'a RawChannel,
    /// Nothing else is under way until this has its verdict.
    pub(super) alone: bool,
    pub(super) _permit: SemaphorePermit<'a>,
}

impl Lane {
    pub(super) fn new() -> Self {
        Self::of_width(WIDTH_MAX)
    }

    /// One message at a time.
    pub(super) fn narrow() -> Self {
        Self::of_width(1)
    }

    fn of_width(width_max: usize) -> Self {
        Self {
            channel: OnceCell::new(),
            places: Semaphore::new(1),
            width: AtomicUsize::new(1),
            width_max,
            failed: Mutex::default(),
        }
    }

    /// Waits for a place. `None` when the channel is gone; an error when there was none to be had, for all who wait.
    pub(super) async fn place(&self, broker: &Broker) -> Option<Result<Place<'_>, String>> {
        let Ok(permit) = self.places.acquire().await else {
            let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            return failed.clone().map(Err);
        };
        let opened = self.channel.get_or_try_init(|| async {
            broker.raw_channel().await.map_err(|error| {
                let why = error.to_string();
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
                self.places.close();
                why
            })
        });
        let channel = match opened.await {
            Ok(channel) => channel,
            Err(why) => return Some(Err(why)),
        };
        if !channel.is_open() {
            self.places.close();
            return None;
        }
        Some(Ok(Place { channel, alone: self.width.load(Ordering::Acquire) == 1, _permit: permit }))
    }

    /// The broker has answered: there may be one more under way.
    pub(super) fn widen(&self) {
        let wider = |width| (width < self.width_max).then_some(width + 1);
        if self.width.fetch_update(Ordering::AcqRel, Ordering::Acquire, wider).is_ok() {
            self.places.add_permits(1);
        }
    }
}
