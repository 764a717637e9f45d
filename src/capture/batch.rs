//! Collects deliveries until they are worth a transaction. Pure: no clock, no I/O.

use tokio::time::Instant;

use crate::source::Delivery;

/// When a batch is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub rows: usize,
    pub bytes: usize,
}

/// Deliveries in the order received.
#[derive(Debug, Default)]
pub struct Batch {
    deliveries: Vec<Delivery>,
    bytes: usize,
    received_at: Option<Instant>,
}

impl Batch {
    #[must_use]
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// When its first delivery came.
    #[must_use]
    pub fn received_at(&self) -> Option<Instant> {
        self.received_at
    }

    /// For a source to take out what is no longer its own; [`Batch::recount`] afterwards.
    pub(super) fn deliveries_mut(&mut self) -> &mut Vec<Delivery> {
        &mut self.deliveries
    }

    pub(super) fn recount(&mut self) {
        self.bytes = self.deliveries.iter().map(|delivery| delivery.message.footprint()).sum();
    }

    #[must_use]
    pub fn into_deliveries(self) -> Vec<Delivery> {
        self.deliveries
    }
}

/// Fills one batch after the other.
#[derive(Debug)]
pub struct Batcher {
    limits: Limits,
    batch: Batch,
}

impl Batcher {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, batch: Batch::default() }
    }

    pub fn push(&mut self, delivery: Delivery, now: Instant) {
        self.batch.received_at.get_or_insert(now);
        self.batch.bytes += delivery.message.footprint();
        self.batch.deliveries.push(delivery);
    }

    /// Rows that still fit; at least one goes into an empty batch, however large.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.batch.bytes >= self.limits.bytes {
            0
        } else {
            self.limits.rows.saturating_sub(self.batch.deliveries.len())
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.deliveries.is_empty()
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// The batch at hand, leaving an empty one. Cut at the byte limit: a run of large messages becomes several.
    #[must_use]
    pub fn take(&mut self) -> Batch {
        let mut bytes = 0;
        let cut = self.batch.deliveries.iter().position(|delivery| {
            let over = bytes >= self.limits.bytes;
            bytes += delivery.message.footprint();
            over
        });
        let Some(cut) = cut else { return std::mem::take(&mut self.batch) };
        let rest = self.batch.deliveries.split_off(cut);
        let rest_bytes = rest.iter().map(|d| d.message.footprint()).sum();
        let rest = Batch { deliveries: rest, bytes: rest_bytes, received_at: self.batch.received_at };
        let full = std::mem::replace(&mut self.batch, rest);
        Batch { bytes: full.bytes - rest_bytes, ..full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dead_letter::CapturedFrom,
        message::{AmqpProperties, Headers, RawMessage},
        source::AckToken,
    };

    fn delivery(session: u64, position: u64, body: usize) -> Delivery {
        let message = RawMessage::amqp(AmqpProperties::default(), Headers::new(), vec![0; body]);
        Delivery { message, captured: CapturedFrom::default(), token: AckToken { session, position } }
    }

    #[test]
    fn a_batch_is_full_by_rows() {
        let mut batcher = Batcher::new(Limits { rows: 2, bytes: 1 << 20 });
        batcher.push(delivery(1, 1, 10), Instant::now());
        assert_eq!((batcher.is_full(), batcher.room()), (false, 1));
        batcher.push(delivery(1, 2, 10), Instant::now());
        assert!(batcher.is_full());
        assert_eq!(batcher.take().deliveries().len(), 2);
        assert!(batcher.is_empty());
    }

    #[test]
    fn a_run_of_large_messages_is_cut_by_bytes_and_nothing_is_left_behind() {
        let mut batcher = Batcher::new(Limits { rows: 1000, bytes: 10_000 });
        for position in 1..=7 {
            batcher.push(delivery(1, position, 6_000), Instant::now());
        }
        let mut positions = Vec::new();
        while !batcher.is_empty() {
            let batch = batcher.take();
            assert_eq!(batch.bytes(), batch.deliveries().iter().map(|d| d.message.footprint()).sum::<usize>());
            assert!(batch.deliveries().len() <= 2);
            positions.extend(batch.into_deliveries().into_iter().map(|d| d.token.position));
        }
        assert_eq!(positions, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn one_message_larger_than_the_limit_goes_alone() {
        let mut batcher = Batcher::new(Limits { rows: 10, bytes: 1_000 });
        assert_eq!(batcher.room(), 10);
        batcher.push(delivery(1, 1, 50_000), Instant::now());
        assert!(batcher.is_full());
        assert_eq!(batcher.take().deliveries().len(), 1);
    }
}
