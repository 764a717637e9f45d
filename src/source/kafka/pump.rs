//! The thread of one consumer. It always polls, so that the group keeps us; while the store is slow it pauses.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBuilder};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};
use tokio::{runtime::Handle, task::AbortHandle};
use uuid::Uuid;

use super::{
    Settings,
    begin::Mark,
    broker::{self, Client},
    join::{self, Joined},
    resolve::{Found, Resolved, Resolver},
    shared::{Session, Shared},
    verify::Verifier,
    watch::{Finding, Watch},
};
use crate::{
    kafka::native::{Event, Queue, Record},
    source::{Partition, PositionLedger},
};

/// How long partitions are not paused while there is no room: pausing throws away what librdkafka has fetched.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
const COMMIT_EVERY: Duration = Duration::from_secs(1);
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);
/// Records that are handed on at once.
const RUN_RECORDS: usize = 256;

pub(super) struct Pump {
    pub(super) settings: Arc<Settings>,
    pub(super) shared: Arc<Shared>,
    pub(super) ledger: Arc<dyn PositionLedger>,
    pub(super) runtime: Handle,
    /// Partitions whose lag is told here, whatever becomes of a consumer.
    pub(super) shown: Arc<Mutex<BTreeSet<Partition>>>,
}

enum Command {
    Resolved(Resolved),
    Found(Finding),
}

impl Pump {
    /// Until the source is closed.
    pub(super) fn run(self) {
        let mut pauses = pauses();
        while !self.shared.is_closed() {
            let why = match join::join(&self.settings, &*self.ledger, &self.runtime, &self.shared) {
                Ok(joined) => {
                    pauses = self::pauses();
                    let consumer = Consuming::new(&self, joined);
                    consumer.run()
                }
                Err(why) => Some(why),
            };
            self.shared.left();
            let Some(why) = why else { return };
            let pause = pauses.next().unwrap_or(PAUSE_MAX);
            tracing::warn!(source = self.settings.info.name, why, retry_in = ?pause, "not capturing");
            self.settings.metrics.down(why);
            self.shared.sleep(pause);
        }
    }
}

const PAUSE_MAX: Duration = Duration::from_secs(30);

fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(PAUSE_MAX)
        .with_jitter()
        .without_max_times()
        .build()
}

/// One consumer's life in the group.
struct Consuming<'a> {
    pump: &'a Pump,
    // Dropped before the client, whose queue it is.
    queue: Queue,
    client: Arc<Client>,
    group: Arc<crate::source::positions::Group>,
    installation: Uuid,
    new_topics: Arc<Mutex<BTreeSet<String>>>,
    subscribed: BTreeSet<String>,
    tell: mpsc::Sender<Command>,
    told: mpsc::Receiver<Command>,
    /// What runs beside.
    beside: [AbortHandle; 2],
    /// Of topics that were read by this client.
    topic_ids: HashMap<String, Uuid>,
    /// Partitions that librdkafka reads.
    reading: BTreeSet<Partition>,
    paused: bool,
    committed: Instant,
    complained: HashMap<String, Instant>,
}

impl Drop for Consuming<'_> {
    fn drop(&mut self) {
        self.beside.iter().for_each(AbortHandle::abort);
    }
}

impl<'a> Consuming<'a> {
    fn new(pump: &'a Pump, joined: Joined) -> Self {
        let Joined { client, queue, group, installation, all_topics, subscribed } = joined;
        let (tell, told) = mpsc::channel();
        let new_topics = Arc::default();
        let watch = Watch {
            settings: Arc::clone(&pump.settings),
            client: Arc::clone(&client),
            shared: Arc::clone(&pump.shared),
            ledger: Arc::clone(&pump.ledger),
            group: Arc::clone(&group),
            new_topics: Arc::clone(&new_topics),
            shown: Arc::clone(&pump.shown),
        };
        let found = tell.clone();
        let watching = watch.run(all_topics, move |finding| drop(found.send(Command::Found(finding))));
        let verifier = Verifier {
            source: pump.settings.info.name.clone(),
            client: Arc::clone(&client),
            shared: Arc::clone(&pump.shared),
            metrics: pump.settings.metrics.clone(),
        };
        let beside = [pump.runtime.spawn(watching).abort_handle(), pump.runtime.spawn(verifier.run()).abort_handle()];
        Self {
            pump,
            queue,
            client,
            group,
            installation,
            new_topics,
            subscribed,
            tell,
            told,
            beside,
            topic_ids: HashMap::new(),
            reading: BTreeSet::new(),
            paused: false,
            committed: Instant::now(),
            complained: HashMap::new(),
        }
    }

    fn name(&self) -> &str {
        &self.pump.settings.info.name
    }

    /// Until the source is closed (`None`), or it has to begin again, and why.
    fn run(mut self) -> Option<String> {
        let why = loop {
            if self.pump.shared.is_closed() {
                break None;
            }
            if let Err(why) = self.turn() {
                break Some(why);
            }
        };
        self.commit(CommitMode::Sync);
        self.client.unsubscribe();
        // Here rather than wherever the last task that asks something lets go of the client.
        if self.client.close_queue().is_ok() {
            let until = Instant::now() + Duration::from_secs(5);
            while !self.client.closed() && Instant::now() < until {
                let _ = self.client.poll(POLL);
            }
        }
        why
    }

    fn turn(&mut self) -> Result<(), String> {
        while let Ok(command) = self.told.try_recv() {
            match command {
                Command::Resolved(resolved) => self.begin(resolved)?,
                Command::Found(Finding::Astray(session)) => self.again(session)?,
                Command::Found(Finding::Topics(topics)) => self.subscribe(topics)?,
            }
        }
        for session in self.pump.shared.astray() {
            self.again(session)?;
        }
        if self.committed.elapsed() >= COMMIT_EVERY {
            self.commit(CommitMode::Async);
        }
        if self.paused {
            if self.pump.shared.has_much_room() {
                self.resume()?;
            }
        } else if !self.pump.shared.wait_for_room(ROOM_PATIENCE) {
            self.pause()?;
        }
        self.poll()
    }

    /// Takes what is there, waiting for a first event only.
    fn poll(&mut self) -> Result<(), String> {
        let mut run = Vec::new();
        let mut patience = POLL;
        let mut bytes = 0;
        while run.len() < RUN_RECORDS && bytes < self.pump.shared.capacity() / 4 {
            let Some(event) = self.queue.poll(patience) else { break };
            patience = Duration::ZERO;
            match event {
                Event::Records(mut records) => {
                    bytes += records.iter().map(Record::size).sum::<usize>();
                    run.append(&mut records);
                }
                other => {
                    // In the order in which they came.
                    self.hand_on(&mut run);
                    self.handle(other)?;
                }
            }
        }
        self.hand_on(&mut run);
        Ok(())
    }

    fn hand_on(&self, run: &mut Vec<Record>) {
        if !run.is_empty() {
            self.pump.shared.push(std::mem::take(run));
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Records(_) => {}
            Event::End(partition, offset) => self.pump.shared.ended(&partition, offset),
            Event::Assigned(partitions) => self.assigned(&partitions)?,
            Event::Revoked { partitions, lost } => self.revoked(&partitions, lost)?,
            Event::Committed(Ok(())) => {}
            Event::Committed(Err(code)) => {
                self.pump.shared.not_told();
                tracing::debug!(source = self.name(), %code, "group offsets not committed");
            }
            Event::Error { text, fatal: true, .. } => return Err(text),
            Event::Error { code, text, partition, .. } => self.failed(code, text, partition)?,
        }
        Ok(())
    }

    fn failed(&mut self, code: RDKafkaErrorCode, text: String, partition: Option<Partition>) -> Result<(), String> {
        use RDKafkaErrorCode as Code;
        match (code, partition) {
            (Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::UnknownTopicId, Some(partition)) => {
                let owned = self.pump.shared.owned();
                if let Some(owned) = owned.get(&partition) {
                    self.again(Session { partition, number: owned.session })?;
                }
            }
            (Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve | Code::Authentication, _)
            | (Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed, _) => {
                self.complain(code, &text);
                self.pump.settings.metrics.down(text);
            }
            _ => self.complain(code, &text),
        }
        Ok(())
    }

    /// librdkafka repeats what it cannot do with every attempt. Said once, then every half minute.
    fn complain(&mut self, code: RDKafkaErrorCode, text: &str) {
        let is_due = self.complained.get(text).is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY);
        if is_due {
            self.complained.insert(text.to_owned(), Instant::now());
            tracing::warn!(source = self.name(), %code, "{text}");
        }
    }

    fn assigned(&mut self, partitions: &[Partition]) -> Result<(), String> {
        // Answered at once; what is to be read is added when it is known from where.
        self.client.incremental_assign(&TopicPartitionList::new()).map_err(said)?;
        let sessions: Vec<Session> = partitions.iter().map(|partition| self.pump.shared.assign(partition)).collect();
        tracing::info!(source = self.name(), partitions = names(partitions), "assigned");
        if sessions.is_empty() {
            self.pump.settings.metrics.up();
        }
        self.resolve(sessions);
        Ok(())
    }

    fn resolve(&self, sessions: Vec<Session>) {
        let resolver = Resolver {
            source: self.name().to_owned(),
            client: Arc::clone(&self.client),
            shared: Arc::clone(&self.pump.shared),
            ledger: Arc::clone(&self.pump.ledger),
            group: Arc::clone(&self.group),
            installation: self.installation,
            start: self.pump.settings.start,
            new_topics: Arc::clone(&self.new_topics),
            metrics: self.pump.settings.metrics.clone(),
        };
        let tell = self.tell.clone();
        self.pump
            .runtime
            .spawn(resolver.resolve(sessions, move |resolved| drop(tell.send(Command::Resolved(resolved)))));
    }

    fn begin(&mut self, (session, found): Resolved) -> Result<(), String> {
        let known = match found {
            Found::From(known) => known,
            Found::Stopped(at, why) => {
                self.pump.shared.stop(&session, at);
                tracing::error!(source = self.name(), partition = %session.partition, "stopped: {why}");
                self.pump.settings.metrics.stopped(&session.partition.topic, session.partition.number, Some(at.offset));
                return Ok(());
            }
        };
        let (offset, topic_id) = (known.at.offset, known.topic_id);
        if self.topic_ids.insert(session.partition.topic.to_string(), topic_id).is_some_and(|id| id != topic_id) {
            return Err(format!(
                "topic {} was made anew, and librdkafka asks for the old one",
                session.partition.topic
            ));
        }
        if !self.pump.shared.begin(&session, known) {
            return Ok(());
        }
        self.pump.settings.metrics.stopped(&session.partition.topic, session.partition.number, None);
        let list = broker::list_at([(&session.partition, Offset::Offset(offset))]).map_err(said)?;
        self.client.incremental_assign(&list).map_err(said)?;
        if self.paused {
            self.client.pause(&list).map_err(said)?;
        }
        self.reading.insert(session.partition);
        self.pump.settings.metrics.up();
        Ok(())
    }

    fn revoked(&mut self, partitions: &[Partition], lost: bool) -> Result<(), String> {
        tracing::info!(source = self.name(), partitions = names(partitions), lost, "revoked");
        if !lost {
            self.commit(CommitMode::Async);
        }
        for partition in partitions {
            self.pump.shared.revoke(partition);
            // Whoever has it now says so.
            self.pump.settings.metrics.stopped(&partition.topic, partition.number, None);
        }
        self.stop_reading(partitions)
    }

    fn stop_reading(&mut self, partitions: &[Partition]) -> Result<(), String> {
        let reading: Vec<Partition> = partitions.iter().filter(|p| self.reading.remove(*p)).cloned().collect();
        self.client.incremental_unassign(&broker::list(&reading)).map_err(said)
    }

    /// Ends a session and begins another one, where the database says.
    fn again(&mut self, session: Session) -> Result<(), String> {
        if !self.pump.shared.is_alive(&session) {
            return Ok(());
        }
        let new = self.pump.shared.assign(&session.partition);
        if self.reading.contains(&session.partition) {
            self.stop_reading(std::slice::from_ref(&session.partition))?;
        }
        self.resolve(vec![new]);
        Ok(())
    }

    fn subscribe(&mut self, topics: BTreeSet<String>) -> Result<(), String> {
        if topics != self.subscribed {
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            tracing::info!(source = self.name(), topics = names.join(", "), "subscribed");
            self.client.subscribe(&names).map_err(said)?;
            self.subscribed = topics;
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<(), String> {
        self.paused = true;
        self.client.pause(&broker::list(&self.reading)).map_err(said)
    }

    fn resume(&mut self) -> Result<(), String> {
        self.paused = false;
        self.client.resume(&broker::list(&self.reading)).map_err(said)
    }

    /// Tells the group how far the table is: for lag tools and for people, not for us.
    fn commit(&mut self, mode: CommitMode) {
        self.committed = Instant::now();
        let untold = self.pump.shared.untold();
        if untold.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for (partition, offset, since) in untold {
            let mark = Mark { installation: self.installation, since };
            let mut element = list.add_partition(&partition.topic, partition.number);
            element.set_metadata(mark.to_string());
            let _ = element.set_offset(Offset::Offset(offset));
        }
        if let Err(error) = self.client.commit(&list, mode) {
            self.pump.shared.not_told();
            tracing::debug!(source = self.name(), %error, "group offsets not committed");
        }
    }
}

fn said(error: KafkaError) -> String {
    error.to_string()
}

fn names(partitions: &[Partition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
