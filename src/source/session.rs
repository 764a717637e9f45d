//! Proof that a batch is ours to write, for brokers that number deliveries by channel (RabbitMQ).
//!
//! A session is one channel's life on one queue, known to the database by an id. The queue has an epoch there,
//! which is raised by whoever receives a redelivery. A session may commit only at an epoch at or after which the
//! broker was seen to answer on its channel: messages of a living channel cannot have been delivered elsewhere.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicI64, Ordering},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;

use super::LedgerError;

/// The store's account of sessions and epochs.
#[async_trait]
pub trait SessionLedger: Send + Sync {
    /// Records a new session. Called before its channel takes the first message.
    async fn open(&self, source: &str, queue: &str) -> Result<Session, LedgerError>;

    /// The queue's epoch now; `None` when the database does not know the session.
    async fn epoch(&self, session: &Session) -> Result<Option<i64>, LedgerError>;

    /// Raises the queue's epoch, after every writer that holds it has committed. Returns the new one,
    /// or `None` as above.
    async fn raise_epoch(&self, session: &Session) -> Result<Option<i64>, LedgerError>;

    /// Records that the session is over. `all_acked`: the broker has confirmed every ack.
    async fn close(&self, session: &Session, all_acked: bool) -> Result<(), LedgerError>;
}

/// One channel's life on one queue.
#[derive(Debug)]
pub struct Session {
    pub id: i64,
    /// The last epoch at or after which the broker answered on this channel.
    epoch: AtomicI64,
    /// How many transactions of this session have committed: a repeated commit is recognised by its number.
    commits: AtomicI64,
    /// No row of this session that has been committed has a greater id.
    ceiling: AtomicI64,
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    /// Batches handed to a writer, oldest first: their last tag, and an id below all of their rows.
    written: VecDeque<(u64, i64)>,
    /// Acks sent, oldest first: when the broker was seen to have them (`None`: not yet), last tag, id below.
    acked: VecDeque<(Option<Instant>, u64, i64)>,
    known: (u64, i64),
}

/// A broker that is killed may forget acks it answered for a moment ago. Only older ones are believed.
const ACK_SETTLES: Duration = Duration::from_secs(5);

impl Session {
    #[must_use]
    pub fn new(id: i64, epoch: i64, ceiling: i64) -> Self {
        let marks = Mutex::new(Marks { known: (0, ceiling), ..Marks::default() });
        Self { id, epoch: AtomicI64::new(epoch), commits: AtomicI64::new(0), ceiling: AtomicI64::new(ceiling), marks }
    }

    pub fn seen_alive_at(&self, epoch: i64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// The number of the next transaction to commit.
    #[must_use]
    pub fn next_commit(&self) -> i64 {
        self.commits.load(Ordering::Acquire) + 1
    }

    /// Transaction `number` is known to be committed, and no row of the session is above `ceiling`.
    pub fn committed(&self, number: i64, ceiling: Option<i64>) {
        self.commits.fetch_max(number, Ordering::AcqRel);
        if let Some(ceiling) = ceiling {
            self.ceiling.fetch_max(ceiling, Ordering::AcqRel);
        }
    }

    /// A batch that ends with `last_tag` goes to a writer now.
    pub fn will_write(self: &Arc<Self>, last_tag: u64, now: Instant) -> SessionClaim {
        let floor = self.ceiling.load(Ordering::Acquire);
        let known = {
            let mut marks = self.marks();
            marks.written.push_back((last_tag, floor));
            marks.settle(now);
            marks.known
        };
        self.claim(known)
    }

    /// A claim at the epoch of now, for a batch that was refused as out of date.
    #[must_use]
    pub fn renew(self: &Arc<Self>) -> SessionClaim {
        let known = self.marks().known;
        self.claim(known)
    }

    fn claim(self: &Arc<Self>, (acked_tag, floor_id): (u64, i64)) -> SessionClaim {
        SessionClaim {
            session: Arc::clone(self),
            epoch: self.epoch.load(Ordering::Acquire),
            raise: false,
            acked_tag: i64::try_from(acked_tag).unwrap_or(i64::MAX),
            floor_id,
        }
    }

    /// The ack of all up to `tag` has been written to the channel.
    pub fn ack_sent(&self, tag: u64) {
        let mut marks = self.marks();
        let mut floor = None;
        while let Some((last, below)) = marks.written.front().copied().filter(|(last, _)| *last <= tag) {
            floor = Some((last, below));
            marks.written.pop_front();
        }
        if let Some((last, below)) = floor {
            marks.acked.push_back((None, last, below));
        }
    }

    /// Whether an ack has been sent that the broker has not yet been seen to have.
    #[must_use]
    pub fn has_unseen_acks(&self) -> bool {
        self.marks().acked.iter().any(|(seen, ..)| seen.is_none())
    }

    /// The broker answered on this channel: it has every ack sent before.
    pub fn acks_seen(&self, now: Instant) {
        let mut marks = self.marks();
        for (seen, ..) in marks.acked.iter_mut().filter(|(seen, ..)| seen.is_none()) {
            *seen = Some(now);
        }
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marks {
    fn settle(&mut self, now: Instant) {
        while let Some((Some(seen), tag, floor)) = self.acked.front().copied() {
            if now.duration_since(seen) < ACK_SETTLES {
                break;
            }
            self.known = (tag, floor);
            self.acked.pop_front();
        }
    }
}

/// A session's claim on a batch.
#[derive(Clone, Debug)]
pub struct SessionClaim {
    pub session: Arc<Session>,
    pub epoch: i64,
    /// The batch holds redelivered messages: before it is written the epoch has to be raised.
    pub raise: bool,
    /// Acks up to this tag are known to have reached the broker.
    pub acked_tag: i64,
    /// Rows of this session that are not known to be acked have a greater id.
    pub floor_id: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_ack_counts_as_known_only_after_the_broker_answered_and_some_time_passed() {
        let session = Arc::new(Session::new(1, 1, 100));
        let _ = session.will_write(10, Instant::now());
        session.committed(1, Some(110));
        session.ack_sent(10);
        assert!(session.has_unseen_acks());
        tokio::time::advance(ACK_SETTLES * 2).await;
        assert_eq!(session.will_write(20, Instant::now()).acked_tag, 0, "nobody answered yet");
        session.acks_seen(Instant::now());
        assert_eq!(session.will_write(30, Instant::now()).acked_tag, 0, "answered a moment ago");
        tokio::time::advance(ACK_SETTLES).await;
        let claim = session.will_write(40, Instant::now());
        assert_eq!((claim.acked_tag, claim.floor_id), (10, 100));
    }

    #[test]
    fn a_commit_number_moves_only_forward() {
        let session = Session::new(1, 1, 0);
        session.committed(1, Some(50));
        session.committed(1, None);
        assert_eq!(session.next_commit(), 2);
    }
}
