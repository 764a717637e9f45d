//! What the thread that polls and the source that is asked have in common.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::{
    kafka::native::Record,
    metrics::SourceMetrics,
    source::{
        AckToken, Acked, Delivery, Partition,
        positions::{At, Expected, Group, Known, PositionClaim},
    },
};

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Something may be taken, or the source was closed.
    pub(super) arrived: Notify,
    /// Something came that is to be verified.
    pub(super) came: Notify,
    /// Something was taken, or the source was closed.
    room: Condvar,
    /// Bytes that are held for the source at most, before the last message of a run.
    capacity: usize,
    metrics: SourceMetrics,
}

#[derive(Debug, Default)]
struct State {
    /// With their numbers, in the order in which they came.
    buffer: VecDeque<(u64, Delivery)>,
    bytes: usize,
    /// The number of the last that came, and of the last that may be taken.
    last: u64,
    verified: u64,
    group: Option<Arc<Group>>,
    owned: BTreeMap<Partition, Owned>,
    /// Living sessions.
    sessions: HashMap<u64, Partition>,
    last_session: u64,
    /// Sessions whose position is not where it was expected.
    astray: Vec<Session>,
    closed: bool,
}

/// One assignment of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) partition: Partition,
    pub(super) number: u64,
}

/// A partition that is ours.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) session: u64,
    /// `None` until it is known where to read from.
    pub(super) reading: Option<Reading>,
    /// The position at which nothing may be read.
    pub(super) stopped: Option<At>,
}

#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) known: Known,
    /// Up to here messages have come from the broker.
    read: i64,
    /// Up to here batches have been claimed.
    claimed: i64,
    /// Up to here the table has them.
    pub(super) stored: i64,
    /// Up to here the group was told.
    told: i64,
    /// The end of the partition, when it was reached last. What lies before it and did not come is no message.
    end: i64,
}

impl Reading {
    /// Everything that came is in the table.
    pub(super) fn is_settled(&self) -> bool {
        self.read == self.stored && self.claimed == self.stored
    }

    /// A position past what is no message at the end of the partition.
    pub(super) fn end_beyond(&self) -> Option<i64> {
        (self.is_settled() && self.end > self.stored).then_some(self.end)
    }

    /// Whether a position that the database had after this was noted is one that we know of.
    pub(super) fn explains(&self, at: At, stored_before: i64) -> bool {
        at.epoch == self.known.at.epoch && (stored_before..=self.claimed.max(self.stored)).contains(&at.offset)
    }
}

impl Shared {
    pub(super) fn new(capacity: usize, metrics: SourceMetrics) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            came: Notify::new(),
            room: Condvar::new(),
            capacity,
            metrics,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_waiters();
        self.room.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Waits, but not longer than it takes to be closed. Whether it was not.
    pub(super) fn sleep(&self, pause: Duration) -> bool {
        let waited = self.room.wait_timeout_while(self.state(), pause, |state| !state.closed);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Waits for room. Whether there is some.
    pub(super) fn wait_for_room(&self, patience: Duration) -> bool {
        let is_full = |state: &mut State| state.bytes >= self.capacity && !state.closed;
        let waited = self.room.wait_timeout_while(self.state(), patience, is_full);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes < self.capacity
    }

    /// So much room that it is worth to begin again.
    pub(super) fn has_much_room(&self) -> bool {
        self.state().bytes <= self.capacity / 2
    }

    /// A consumer has joined this group, with nothing assigned.
    pub(super) fn joined(&self, group: Arc<Group>) {
        let mut state = self.state();
        state.forget_all();
        self.metrics.joined(&group.cluster);
        state.group = Some(group);
    }

    /// All sessions are over.
    pub(super) fn left(&self) {
        self.state().forget_all();
    }

    /// A new session of a partition, which ends the one it may have had.
    pub(super) fn assign(&self, partition: &Partition) -> Session {
        let mut state = self.state();
        state.end(partition);
        state.last_session += 1;
        let number = state.last_session;
        state.sessions.insert(number, partition.clone());
        state.owned.insert(partition.clone(), Owned { session: number, reading: None, stopped: None });
        Session { partition: partition.clone(), number }
    }

    /// Ends a partition's session.
    pub(super) fn revoke(&self, partition: &Partition) {
        self.state().end(partition);
    }

    pub(super) fn is_alive(&self, session: &Session) -> bool {
        self.state().sessions.contains_key(&session.number)
    }

    /// From now on a session's messages are taken. Whether it is still alive.
    pub(super) fn begin(&self, session: &Session, known: Known) -> bool {
        let mut state = self.state();
        let Some(owned) = state.owned.get_mut(&session.partition).filter(|owned| owned.session == session.number)
        else {
            return false;
        };
        let offset = known.at.offset;
        owned.reading =
            Some(Reading { known, read: offset, claimed: offset, stored: offset, told: offset - 1, end: offset });
        true
    }

    /// A session reads nothing while the position is this one.
    pub(super) fn stop(&self, session: &Session, at: At) {
        let mut state = self.state();
        if let Some(owned) = state.owned.get_mut(&session.partition).filter(|owned| owned.session == session.number) {
            owned.stopped = Some(at);
        }
    }

    pub(super) fn push(&self, records: Vec<Record>) {
        let mut state = self.state();
        for record in records {
            state.take_in(record);
        }
        self.metrics.set_held(state.buffer.len() as u64);
        drop(state);
        self.came.notify_one();
    }

    /// The number of the last record that came and was not verified, and the topics of all that were not.
    pub(super) fn unverified(&self) -> Option<(u64, HashSet<Arc<str>>)> {
        let state = self.state();
        let unverified = state.buffer.iter().rev().take_while(|(number, _)| *number > state.verified);
        let mut topics: HashSet<Arc<str>> = HashSet::new();
        let mut previous: Option<&Arc<str>> = None;
        for topic in unverified.filter_map(|(_, delivery)| delivery.captured.topic.as_ref()) {
            if !previous.is_some_and(|previous| Arc::ptr_eq(previous, topic)) {
                topics.insert(Arc::clone(topic));
            }
            previous = Some(topic);
        }
        (!topics.is_empty()).then_some((state.last, topics))
    }

    /// Topics had these ids after record `last` had come. Records of a topic that is another one by now are dropped, and
    /// their partition is begun anew.
    pub(super) fn verified(&self, last: u64, ids: &HashMap<String, Uuid>) {
        let mut state = self.state();
        let is_another = |partition: &Partition, reading: &Reading| {
            let (now, then) = (ids.get(&*partition.topic).copied().unwrap_or_default(), reading.known.topic_id);
            !now.is_nil() && !then.is_nil() && now != then
        };
        let another: Vec<Session> = (state.owned.iter())
            .filter(|(partition, owned)| owned.reading.as_ref().is_some_and(|reading| is_another(partition, reading)))
            .map(|(partition, owned)| Session { partition: partition.clone(), number: owned.session })
            .collect();
        for session in another {
            state.drop_buffered(session.number);
            state.add_astray(session);
        }
        state.verified = last;
        drop(state);
        self.arrived.notify_one();
    }

    pub(super) fn ended(&self, partition: &Partition, offset: i64) {
        if let Some(reading) = self.state().reading_mut(partition) {
            reading.end = offset;
        }
    }

    /// The next deliveries; `None` when the source is closed.
    pub(super) fn take(&self, max: usize) -> Option<Vec<Delivery>> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let verified = state.verified;
        let count = state.buffer.iter().take(max).take_while(|(number, _)| *number <= verified).count();
        let run: Vec<Delivery> = state.buffer.drain(..count).map(|(_, delivery)| delivery).collect();
        let was_full = state.bytes >= self.capacity;
        state.bytes -= run.iter().map(|delivery| delivery.message.footprint()).sum::<usize>();
        let has_room = state.bytes < self.capacity;
        self.metrics.set_held(state.buffer.len() as u64);
        drop(state);
        if was_full && has_room {
            self.room.notify_all();
        }
        Some(run)
    }

    pub(super) fn claim(&self, batch: &mut Vec<Delivery>) -> Option<PositionClaim> {
        let mut state = self.state();
        let group = Arc::clone(state.group.as_ref()?);
        batch.retain(|delivery| state.sessions.contains_key(&delivery.token.session));
        let mut expected = BTreeMap::new();
        for Run { session, end, .. } in runs(batch.iter().map(|delivery| &delivery.token)) {
            let Some(partition) = state.sessions.get(&session).cloned() else { continue };
            let Some(reading) = state.reading_mut(&partition) else { continue };
            let at = At { offset: reading.claimed, ..reading.known.at };
            expected.insert(partition, Expected { session, at });
            reading.claimed = reading.claimed.max(end);
        }
        (!batch.is_empty()).then_some(PositionClaim { group, expected, lost: Vec::new() })
    }

    /// The database has these partitions elsewhere: what was read of them is read again.
    pub(super) fn went_astray(&self, claim: &mut PositionClaim) {
        let mut state = self.state();
        for partition in std::mem::take(&mut claim.lost) {
            if let Some(expected) = claim.expected.remove(&partition)
                && state.sessions.contains_key(&expected.session)
            {
                state.add_astray(Session { partition, number: expected.session });
            }
        }
    }

    pub(super) fn astray(&self) -> Vec<Session> {
        std::mem::take(&mut self.state().astray)
    }

    pub(super) fn ack(&self, tokens: &[AckToken]) -> Acked {
        let mut state = self.state();
        let mut acked = Acked::default();
        for Run { session, end, count } in runs(tokens) {
            let partition = state.sessions.get(&session).cloned();
            match partition.and_then(|partition| state.reading_mut(&partition)) {
                Some(reading) => {
                    reading.stored = reading.stored.max(end);
                    acked.sent += count;
                }
                None => acked.stale += count,
            }
        }
        acked
    }

    /// Offsets that the group has not been told yet, with where their partition began.
    pub(super) fn untold(&self) -> Vec<(Partition, i64, i64)> {
        let mut state = self.state();
        let reading = state.owned.iter_mut().filter_map(|(p, owned)| Some((p, owned.reading.as_mut()?)));
        let untold = reading.filter(|(_, reading)| reading.told < reading.stored);
        untold
            .map(|(partition, reading)| {
                reading.told = reading.stored;
                (partition.clone(), reading.stored, reading.known.since)
            })
            .collect()
    }

    /// A commit failed: everything is told again with the next one.
    pub(super) fn not_told(&self) {
        for owned in self.state().owned.values_mut() {
            if let Some(reading) = &mut owned.reading {
                reading.told = reading.told.min(reading.stored - 1);
            }
        }
    }

    /// What is ours now.
    pub(super) fn owned(&self) -> BTreeMap<Partition, Owned> {
        self.state().owned.clone()
    }

    /// The position was moved past what is no message.
    pub(super) fn skipped_to(&self, session: &Session, offset: i64) {
        let mut state = self.state();
        if !state.sessions.contains_key(&session.number) {
            return;
        }
        if let Some(reading) = state.reading_mut(&session.partition)
            && reading.is_settled()
        {
            let to = reading.stored.max(offset);
            (reading.read, reading.claimed, reading.stored) = (to, to, to);
        }
    }
}

/// What some tokens have in common.
struct Run {
    session: u64,
    /// The offset after the last message.
    end: i64,
    count: usize,
}

/// Tokens by session. Records come many of a partition at a time, and so do their tokens.
fn runs<'t>(tokens: impl IntoIterator<Item = &'t AckToken>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for token in tokens {
        // Positions count from one, so that zero is none.
        let end = i64::try_from(token.position).unwrap_or(i64::MAX);
        match runs.iter_mut().rev().find(|run| run.session == token.session) {
            Some(run) => (run.end, run.count) = (run.end.max(end), run.count + 1),
            None => runs.push(Run { session: token.session, end, count: 1 }),
        }
    }
    runs
}

impl State {
    fn reading_mut(&mut self, partition: &Partition) -> Option<&mut Reading> {
        self.owned.get_mut(partition)?.reading.as_mut()
    }

    fn take_in(&mut self, record: Record) {
        let Some(owned) = self.owned.get_mut(&record.partition) else { return };
        let session = owned.session;
        let Some(reading) = owned.reading.as_mut().filter(|reading| record.offset >= reading.read) else { return };
        reading.read = record.offset + 1;
        let position = u64::try_from(record.offset + 1).unwrap_or_default();
        let delivery = record.into_delivery(AckToken { session, position });
        self.bytes += delivery.message.footprint();
        self.last += 1;
        self.buffer.push_back((self.last, delivery));
    }

    fn add_astray(&mut self, session: Session) {
        if !self.astray.contains(&session) {
            self.astray.push(session);
        }
    }

    fn drop_buffered(&mut self, session: u64) {
        let before = self.buffer.len();
        self.buffer.retain(|(_, delivery)| delivery.token.session != session);
        if self.buffer.len() != before {
            self.bytes = self.buffer.iter().map(|(_, delivery)| delivery.message.footprint()).sum();
        }
    }

    fn end(&mut self, partition: &Partition) -> Option<Owned> {
        let owned = self.owned.remove(partition)?;
        self.sessions.remove(&owned.session);
        self.drop_buffered(owned.session);
        Some(owned)
    }

    fn forget_all(&mut self) {
        self.buffer.clear();
        self.bytes = 0;
        self.owned.clear();
        self.sessions.clear();
        self.astray.clear();
    }
}
