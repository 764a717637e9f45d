//! Says how the sources of this instance are, every few seconds, for people who ask another instance or the database.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{self, Place},
    metrics::{Seen, SourceMetrics},
    store::{
        PgStore,
        sources::{Report, Sighting},
    },
};

const EVERY: Duration = Duration::from_secs(5);

pub(super) async fn report(
    store: Arc<PgStore>,
    sources: Vec<(config::Source, SourceMetrics)>,
    stop: CancellationToken,
) -> Result<(), String> {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        let reports: Vec<Report> = sources.iter().map(|(source, metrics)| look(source, metrics)).collect();
        if let Some(Err(error)) = stop.run_until_cancelled(store.report_sources(&reports)).await {
            tracing::debug!(%error, "sources not reported");
        }
    }
    Ok(())
}

fn look(source: &config::Source, metrics: &SourceMetrics) -> Report {
    let seen = metrics.seen();
    let mut report = Report {
        name: source.name.clone(),
        broker: source.broker.clone(),
        broker_kind: "rabbitmq",
        cluster_id: None,
        group_id: None,
        topics: None,
        queue: None,
        waiting: None,
        partitions: Vec::new(),
        up: metrics.is_up(),
        // PostgreSQL's text has no U+0000, and a broker says what it likes.
        trouble: metrics.trouble().map(|why| why.replace('\0', "\u{fffd}")),
        last_letter_seconds: seen.last_stored.map(|at| at.elapsed().as_secs_f64()),
    };
    match source.place() {
        Place::Queue { queue, .. } => {
            report.waiting = seen.waiting.get(queue).map(|messages| i64::try_from(*messages).unwrap_or(i64::MAX));
            report.queue = Some(queue.to_owned());
        }
        Place::Topics { group, topics, .. } => {
            report.broker_kind = "kafka";
            report.group_id = Some(group.to_owned());
            report.topics = Some(topics.iter().map(|topic| topic.as_str().to_owned()).collect());
            report.partitions = sightings(&seen);
            report.cluster_id = seen.cluster;
        }
    }
    report
}

fn sightings(seen: &Seen) -> Vec<Sighting> {
    let sighting = |((topic, partition), seen): (&(String, i32), &crate::metrics::SeenPartition)| Sighting {
        topic: topic.clone(),
        partition: *partition,
        first: seen.bounds.map(|(first, _)| first),
        end: seen.bounds.map(|(_, end)| end),
        stopped_at: seen.stopped_at,
        reset_to: seen.reset_to,
    };
    seen.partitions.iter().map(sighting).collect()
}
