//! From the sources of the configuration to capture loops.

use std::{collections::HashMap, sync::Arc};

use super::brokers::{self, Brokers};
use crate::{
    broker_admin::lag::{self, Watched},
    capture::{
        batch::Limits,
        pipeline::{self, Capture},
    },
    config::{self, Config, Place},
    dead_letter::SourceInfo,
    lifecycle::{Stop, Tasks},
    metrics::SourceMetrics,
    source::{
        PositionLedger, SessionLedger, Source,
        kafka::{self, KafkaSource},
        rabbitmq::{
            self, RabbitSource,
            topology::{Queue, QueueType},
        },
    },
    store::PgStore,
};

/// Starts a loop for each source, and what watches their lag.
pub(super) fn start(
    config: &Config,
    store: &Arc<PgStore>,
    sources: &[SourceMetrics],
    stop: &Stop,
    tasks: &mut Tasks,
) -> Result<(), String> {
    let building = Building {
        config,
        store,
        rabbits: Brokers::new(config, "capture")?,
        share: config.capture.memory.as_usize() / config.sources.len().max(1),
    };
    let watchers = Brokers::new(config, "watch")?;
    let mut watched: HashMap<&str, Vec<Watched>> = HashMap::new();
    for (source, metrics) in config.sources.iter().zip(sources) {
        let boxed = building.build(source, metrics)?;
        // A Kafka source watches its lag by itself: it knows the topics.
        if let Place::Queue { queue, .. } = source.place() {
            let queue = Watched { queue: queue.to_owned(), metrics: metrics.clone() };
            watched.entry(&source.broker).or_default().push(queue);
        }
        let capture = Capture {
            store: Arc::clone(store),
            limits: Limits { rows: config.capture.batch_rows.as_usize(), bytes: config.capture.batch_bytes.as_usize() },
            writers: config.capture.writers.as_usize(),
            metrics: metrics.clone(),
            stop: stop.soft.clone(),
            stop_hard: stop.hard.clone(),
        };
        tasks.spawn(format!("source {}", source.name), async move {
            pipeline::run(boxed, capture).await.map_err(|error| error.to_string())
        });
    }
    for (broker, queues) in watched {
        let watching = lag::watch(watchers.get(broker)?, queues, stop.soft.clone());
        tasks.spawn(format!("lag of {broker}"), async move {
            watching.await;
            Ok(())
        });
    }
    Ok(())
}

struct Building<'a> {
    config: &'a Config,
    store: &'a Arc<PgStore>,
    rabbits: Brokers,
    /// Of the memory budget.
    share: usize,
}

impl Building<'_> {
    fn build(&self, source: &config::Source, metrics: &SourceMetrics) -> Result<Box<dyn Source>, String> {
        match source.place() {
            Place::Queue { exchange, queue, queue_type, prefetch } => {
                let broker = self.rabbits.get(&source.broker)?;
                let queue_type = match queue_type {
                    config::QueueType::Quorum => QueueType::Quorum,
                    config::QueueType::Classic => QueueType::Classic,
                };
                let settings = rabbitmq::Settings {
                    info: info(source, "rabbitmq", Some(broker.vhost().to_owned())),
                    queue: Queue { name: queue.to_owned(), exchange: exchange.map(str::to_owned), queue_type },
                    broker,
                    share: self.share,
                    prefetch,
                    metrics: metrics.clone(),
                };
                let ledger: Arc<dyn SessionLedger> = Arc::clone(self.store) as _;
                Ok(Box::new(RabbitSource::new(settings, ledger)))
            }
            Place::Topics { group, topics, start } => {
                let settings = kafka::Settings {
                    info: info(source, "kafka", None),
                    cluster: brokers::cluster(self.config, &source.broker)?,
                    group: group.to_owned(),
                    topics: topics_of(topics)?,
                    start: match start {
                        config::Start::Earliest => kafka::Start::Earliest,
                        config::Start::Latest => kafka::Start::Latest,
                        config::Start::Time(time) => kafka::Start::At(time.timestamp_millis()),
                    },
                    share: self.share,
                    metrics: metrics.clone(),
                };
                let ledger: Arc<dyn PositionLedger> = Arc::clone(self.store) as _;
                let kafka = KafkaSource::start(settings, ledger);
                Ok(Box::new(kafka.map_err(|error| format!("source {:?}: {error}", source.name))?))
            }
        }
    }
}

fn info(source: &config::Source, broker_kind: &'static str, vhost: Option<String>) -> Arc<SourceInfo> {
    Arc::new(SourceInfo {
        name: source.name.clone(),
        broker: source.broker.clone(),
        broker_kind,
        vhost,
        service: source.service.clone(),
    })
}

fn topics_of(topics: &[config::Topic]) -> Result<kafka::Topics, String> {
    let mut wanted = kafka::Topics::default();
    for topic in topics {
        match topic {
            config::Topic::Name(name) => drop(wanted.names.insert(name.clone())),
            config::Topic::Pattern(pattern) => {
                wanted.patterns.push(pattern.parse().map_err(|error| format!("topic {pattern:?}: {error}"))?);
            }
        }
    }
    Ok(wanted)
}
