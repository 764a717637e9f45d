//! Looks after what is owned, every few seconds: positions that others moved, topics made anew, new topics, lag.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rdkafka::consumer::Consumer;
use uuid::Uuid;

use super::{
    Settings, Start,
    broker::{self, Bounds, Client, Member},
    resolve::chain,
    shared::{Session, Shared},
};
use crate::kafka::native;
use crate::source::{
    Partition, PositionLedger,
    positions::{At, Group, Known},
};

const EVERY: Duration = Duration::from_secs(5);

pub(super) struct Watch {
    pub(super) settings: Arc<Settings>,
    pub(super) client: Arc<Client>,
    pub(super) shared: Arc<Shared>,
    pub(super) ledger: Arc<dyn PositionLedger>,
    pub(super) group: Arc<Group>,
    pub(super) new_topics: Arc<Mutex<BTreeSet<String>>>,
    /// Partitions whose lag is told here.
    pub(super) shown: Arc<Mutex<BTreeSet<Partition>>>,
}

/// What it finds.
#[derive(Debug)]
pub(super) enum Finding {
    /// To be read anew, from where the database says.
    Astray(Session),
    /// The topics that the source's patterns match now.
    Topics(BTreeSet<String>),
}

impl Watch {
    /// Until it is dropped.
    pub(super) async fn run(self, mut all_topics: BTreeSet<String>, found: impl Fn(Finding)) {
        let mut said = false;
        loop {
            tokio::time::sleep(EVERY).await;
            match self.look(&mut all_topics, &found).await {
                Ok(()) => {
                    said = false;
                    self.settings.metrics.up();
                }
                Err(why) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(source = self.settings.info.name, why, "cannot look after the source");
                    }
                    self.settings.metrics.down(why);
                }
            }
        }
    }

    async fn look(&self, all_topics: &mut BTreeSet<String>, found: &impl Fn(Finding)) -> Result<(), String> {
        let before = self.shared.owned();
        let known = self.ledger.positions(&self.group).await.map_err(|error| chain(&error))?;
        for (partition, owned) in self.shared.owned() {
            let session = Session { partition: partition.clone(), number: owned.session };
            if owned.stopped.is_some() && owned.stopped != known.get(&partition).map(|known| known.at) {
                found(Finding::Astray(session));
                continue;
            }
            let (Some(reading), Some(was)) = (&owned.reading, before.get(&partition)) else { continue };
            let Some(was_stored) = was.reading.as_ref().map(|was| was.stored).filter(|_| was.session == owned.session)
            else {
                continue;
            };
            if !known.get(&partition).is_some_and(|known| reading.explains(known.at, was_stored)) {
                tracing::info!(source = self.settings.info.name, %partition, "the position was moved: it is read from there");
                found(Finding::Astray(session));
            } else if let Some(end) = reading.end_beyond() {
                self.skip(session, reading.stored, end, &reading.known).await?;
            }
        }
        let Answer { topics, ids, bounds, members, member_id } = self.ask(&known).await?;
        let names: BTreeSet<String> = topics.keys().cloned().collect();
        if names != *all_topics {
            let made = names.difference(all_topics).cloned();
            self.new_topics.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
            found(Finding::Topics(self.settings.topics.subscribed(&names)));
            *all_topics = names;
        }
        for (partition, owned) in &before {
            let Some(reading) = &owned.reading else { continue };
            let id = ids.get(&*partition.topic).copied().unwrap_or_default();
            if !id.is_nil() && id != reading.known.topic_id {
                found(Finding::Astray(Session { partition: partition.clone(), number: owned.session }));
            }
        }
        self.settings.metrics.bounds(bounds.iter().map(|(partition, at)| (&*partition.topic, partition.number, *at)));
        self.show_lag(&ours_to_tell(&bounds, &members, &member_id), &known);
        Ok(())
    }

    /// What ends a transaction, and what compaction left, is no message: the position goes past it.
    async fn skip(&self, session: Session, from: i64, end: i64, known: &Known) -> Result<(), String> {
        let expected = At { offset: from, ..known.at };
        let new = Known { at: At { offset: end, ..known.at }, ..known.clone() };
        let set = self.ledger.set_position(&self.group, &session.partition, Some(expected), &new, 0).await;
        if set.map_err(|error| chain(&error))?.at == new.at {
            self.shared.skipped_to(&session, end);
        }
        Ok(())
    }

    async fn ask(&self, known: &BTreeMap<Partition, Known>) -> Result<Answer, String> {
        let (client, settings) = (Arc::clone(&self.client), Arc::clone(&self.settings));
        let known: Vec<Partition> = known.keys().cloned().collect();
        let asking = tokio::task::spawn_blocking(move || {
            let topics = broker::topics(&client)?;
            let mut partitions: BTreeSet<Partition> = settings.topics.partitions(&topics).collect();
            // Topics that the configuration no longer names are still ours to watch while the cluster has them.
            partitions
                .extend(known.into_iter().filter(|p| topics.get(&*p.topic).is_some_and(|count| p.number < *count)));
            let partitions: Vec<Partition> = partitions.into_iter().collect();
            let names: HashSet<&str> = partitions.iter().map(|partition| &*partition.topic).collect();
            let ids = broker::topic_ids(&client, &names)?;
            let bounds = broker::bounds(&client, &partitions)?;
            let members = broker::members(&client, &settings.group)?;
            let member_id = native::member_id(client.client()).unwrap_or_default();
            Ok(Answer { topics, ids, bounds, members, member_id })
        });
        asking.await.map_err(|error| error.to_string())?
    }

    /// From the end of each partition and the database's position: it does not matter whether anybody reads.
    fn show_lag(&self, bounds: &Bounds, known: &BTreeMap<Partition, Known>) {
        let mut shown = BTreeSet::new();
        for (partition, (low, high)) in bounds {
            let position = match (known.get(partition), self.settings.start) {
                (Some(known), _) => known.at.offset,
                (None, Start::Earliest) => *low,
                // What lies there already will not be read.
                (None, Start::Latest | Start::At(_)) => *high,
            };
            let waiting = (high - position.max(*low)).max(0).unsigned_abs();
            self.settings.metrics.partition_lag(&partition.topic, partition.number, waiting);
            shown.insert(partition.clone());
        }
        let mut before = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in before.difference(&shown) {
            self.settings.metrics.no_partition_lag(&gone.topic, gone.number);
        }
        *before = shown;
    }
}

/// What the brokers say.
struct Answer {
    topics: BTreeMap<String, i32>,
    ids: HashMap<String, Uuid>,
    bounds: Bounds,
    members: Vec<Member>,
    /// Ours.
    member_id: String,
}

/// The partitions whose lag this instance tells, so that the sum over all instances is the group's: its own, and where
/// it is the first member those that nobody has.
fn ours_to_tell(bounds: &Bounds, members: &[Member], member_id: &str) -> Bounds {
    let is_first = members.iter().all(|member| *member.id >= *member_id);
    let owner = |partition: &Partition| members.iter().find(|member| member.partitions.contains(partition));
    let is_ours = |partition: &Partition| owner(partition).map_or(is_first, |member| member.id == member_id);
    bounds.iter().filter(|(partition, _)| is_ours(partition)).map(|(p, bounds)| (p.clone(), *bounds)).collect()
}
