//! Finds out where newly assigned partitions are to be read from, for as long as it takes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use rdkafka::Offset;
use uuid::Uuid;

use super::{
    Start,
    begin::{Begin, Facts},
    broker::{self, Client},
    shared::{Session, Shared},
};
use crate::{
    metrics::SourceMetrics,
    source::{
        Partition, PositionLedger,
        positions::{At, Group, Known},
    },
};

pub(super) struct Resolver {
    pub(super) source: String,
    pub(super) client: Arc<Client>,
    pub(super) shared: Arc<Shared>,
    pub(super) ledger: Arc<dyn PositionLedger>,
    pub(super) group: Arc<Group>,
    pub(super) installation: Uuid,
    pub(super) start: Start,
    /// Topics that were made while this process ran: nothing in them came before it.
    pub(super) new_topics: Arc<std::sync::Mutex<BTreeSet<String>>>,
    pub(super) metrics: SourceMetrics,
}

/// Where a session is to be read from.
pub(super) type Resolved = (Session, Found);

#[derive(Debug)]
pub(super) enum Found {
    From(Known),
    /// Not until the position is another one.
    Stopped(At, String),
}

impl Resolver {
    /// Until all are known, or their sessions are over.
    pub(super) async fn resolve(self, sessions: Vec<Session>, found: impl Fn(Resolved)) {
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .with_jitter()
            .without_max_times()
            .build();
        let mut open = sessions;
        loop {
            open.retain(|session| self.shared.is_alive(session));
            if open.is_empty() {
                return;
            }
            match self.attempt(&open).await {
                Ok(resolved) => {
                    for (partition, known) in resolved {
                        if let Some(at) = open.iter().position(|session| session.partition == partition) {
                            found((open.swap_remove(at), known));
                        }
                    }
                }
                Err(why) => {
                    tracing::debug!(source = self.source, why, "it is not known yet where to read from");
                    self.metrics.down(format!("it is not known where to read from: {why}"));
                }
            }
            if !open.is_empty() {
                tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(5))).await;
            }
        }
    }

    async fn attempt(&self, sessions: &[Session]) -> Result<Vec<(Partition, Found)>, String> {
        let partitions: Vec<Partition> = sessions.iter().map(|session| session.partition.clone()).collect();
        let known = self.ledger.positions(&self.group).await.map_err(|error| chain(&error))?;
        let facts = self.ask(partitions, known).await?;
        let mut resolved = Vec::new();
        for (partition, facts) in facts {
            let reset = facts.reset_by_hand();
            self.metrics.reset(&partition.topic, partition.number, reset);
            if let Some(offset) = reset {
                self.say_reset(&partition, &facts, offset);
            }
            match facts.begin() {
                Begin::At(_) => resolved.extend(facts.known.map(|known| (partition, Found::From(known)))),
                Begin::Stop(at, why) => resolved.push((partition, Found::Stopped(at, why))),
                Begin::Set { expected, new, lost, why } => {
                    let set = self.ledger.set_position(&self.group, &partition, expected, &new, lost).await;
                    let now = set.map_err(|error| chain(&error))?;
                    if now != new {
                        // Somebody else was first; asked again with what there is now.
                        continue;
                    }
                    if lost > 0 {
                        self.metrics.lost(lost.unsigned_abs());
                        let from = expected.map(|at| at.offset);
                        tracing::error!(source = self.source, %partition, lost, from, to = new.at.offset, "messages are lost: {why}");
                    } else {
                        tracing::info!(source = self.source, %partition, offset = new.at.offset, epoch = new.at.epoch, "{why}");
                    }
                    resolved.push((partition, Found::From(new)));
                }
            }
        }
        Ok(resolved)
    }

    /// What the brokers say. Partitions that they do not answer for are left out.
    async fn ask(
        &self,
        partitions: Vec<Partition>,
        known: BTreeMap<Partition, Known>,
    ) -> Result<Vec<(Partition, Facts)>, String> {
        let (client, start, installation) = (Arc::clone(&self.client), self.start, self.installation);
        let new_topics = self.new_topics.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let asking = tokio::task::spawn_blocking(move || {
            let topics: HashSet<&str> = partitions.iter().map(|partition| &*partition.topic).collect();
            let ids = broker::topic_ids(&client, &topics)?;
            let bounds = broker::bounds(&client, &partitions)?;
            let committed = broker::committed(&client, &partitions)?;
            let times: HashMap<Partition, i64> = match start {
                Start::At(millis) => {
                    broker::offsets_at(&client, &partitions, Offset::Offset(millis))?.into_iter().collect()
                }
                Start::Earliest | Start::Latest => HashMap::new(),
            };
            let of_known_topics: BTreeSet<&str> = known.keys().map(|partition| &*partition.topic).collect();
            let facts = bounds.iter().map(|(partition, (low, high))| {
                // A partition that was added, or a topic that was made, while we looked on: all of it came after us.
                let is_new = new_topics.contains(&*partition.topic) || of_known_topics.contains(&*partition.topic);
                let start = match start {
                    _ if is_new => *low,
                    Start::Earliest => *low,
                    Start::Latest => *high,
                    Start::At(_) => times.get(partition).copied().unwrap_or(*high),
                };
                let facts = Facts {
                    known: known.get(partition).cloned(),
                    topic_id: ids.get(&*partition.topic).copied().unwrap_or_default(),
                    low: *low,
                    high: *high,
                    committed: committed.get(partition).copied(),
                    start,
                    installation,
                };
                (partition.clone(), facts)
            });
            Ok(facts.collect())
        });
        asking.await.map_err(|error| error.to_string())?
    }

    fn say_reset(&self, partition: &Partition, facts: &Facts, offset: i64) {
        let position = facts.known.as_ref().map(|known| known.at.offset);
        tracing::warn!(
            source = self.source,
            %partition,
            group_offset = offset,
            position,
            "the group's offset was set by hand, and dlo goes by its own position; to go there: dlo sources seek --topic {} --partition {} --to {offset}",
            partition.topic,
            partition.number,
        );
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
