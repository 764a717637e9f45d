//! Every metric: name, labels and help, once. Label values come from the configuration, never from a message.

mod seen;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder, core::Collector, histogram_opts, opts, proto::MetricFamily,
};

pub use self::seen::{Seen, SeenPartition};

const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
const ROWS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0];
/// Why a message is a duplicate, is stored with less, or was lost: closed sets, so that all series exist from the start.
const DUPLICATE_REASONS: [&str; 3] = ["redelivery", "broker", "framework"];
const DEGRADED_REASONS: [&str; 1] = ["refused"];
const LOST_REASONS: [&str; 1] = ["retention"];
const WRITE_ERRORS: [&str; 8] = [
    "connection",
    "unavailable",
    "read_only",
    "disk_full",
    "too_many_connections",
    "shutting_down",
    "not_authorized",
    "schema",
];
/// Column `verdict`, and what never got one.
pub const VERDICTS: [&str; 7] = ["ACCEPTED", "ROUTED", "CONSUMED", "DIED_AGAIN", "UNROUTABLE", "REFUSED", "IN_DOUBT"];

/// All metrics of the process.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    received: IntCounterVec,
    stored: IntCounterVec,
    bytes_stored: IntCounterVec,
    duplicates: IntCounterVec,
    degraded: IntCounterVec,
    lost: IntCounterVec,
    stale_acks: IntCounterVec,
    write_errors: IntCounterVec,
    batch_rows: HistogramVec,
    batch_write_seconds: HistogramVec,
    capture_seconds: HistogramVec,
    lag_messages: GaugeVec,
    lag_seconds: GaugeVec,
    partitions_stopped: IntGaugeVec,
    source_up: IntGaugeVec,
    inflight_bytes: IntGaugeVec,
    letters: GaugeVec,
    replays: IntCounterVec,
    replay_seconds: HistogramVec,
    replay_backlog: GaugeVec,
    replay_oldest_due: GaugeVec,
    pub config_reload_success: Gauge,
}

/// Registers a collector. Names are constants: a clash is a defect that every test would show.
#[expect(clippy::expect_used, reason = "names and labels are constants, checked by the first test that starts")]
fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: prometheus::Result<C>) -> C {
    let collector = collector.expect("a valid metric");
    registry.register(Box::new(collector.clone())).expect("a metric of its own");
    collector
}

impl Metrics {
    #[must_use]
    pub fn new() -> Self {
        let r = &Registry::new();
        let counter =
            |name: &str, help: &str, labels: &[&str]| register(r, IntCounterVec::new(opts!(name, help), labels));
        let histogram = |name: &str, help: &str, buckets: &[f64], labels: &[&str]| {
            register(r, HistogramVec::new(histogram_opts!(name, help, buckets.to_vec()), labels))
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| register(r, GaugeVec::new(opts!(name, help), labels));
        let int_gauge =
            |name: &str, help: &str, labels: &[&str]| register(r, IntGaugeVec::new(opts!(name, help), labels));
        let by_source = &["source", "broker"][..];
        let lag = &["source", "queue", "topic", "partition"][..];
        let metrics = Self {
            received: counter("dlo_messages_received_total", "Messages taken from a source.", by_source),
            stored: counter("dlo_messages_stored_total", "Messages committed to the table.", by_source),
            bytes_stored: counter("dlo_bytes_stored_total", "Bytes sent to the table.", by_source),
            duplicates: counter("dlo_duplicates_total", "Second copies, stored as DUPLICATE.", &["source", "reason"]),
            degraded: counter(
                "dlo_messages_degraded_total",
                "Messages stored with less than was known of them.",
                &["source", "reason"],
            ),
            lost: counter(
                "dlo_messages_lost_total",
                "Messages the broker dropped before they could be read.",
                &["source", "reason"],
            ),
            stale_acks: counter(
                "dlo_stale_acks_total",
                "Acks dropped because their channel or assignment was gone.",
                &["source"],
            ),
            write_errors: counter(
                "dlo_batch_write_errors_total",
                "Failed attempts to write a batch; it is kept and tried again.",
                &["source", "reason"],
            ),
            batch_rows: histogram("dlo_batch_rows", "Rows a committed batch.", ROWS, &["source"]),
            batch_write_seconds: histogram(
                "dlo_batch_write_seconds",
                "From the start of a batch's writing to its commit.",
                SECONDS,
                &["source"],
            ),
            capture_seconds: histogram(
                "dlo_capture_seconds",
                "From receiving a batch's messages to their commit.",
                SECONDS,
                &["source"],
            ),
            lag_messages: gauge("dlo_source_lag_messages", "Messages waiting in the broker.", lag),
            partitions_stopped: int_gauge(
                "dlo_source_partitions_stopped",
                "1: a Kafka partition whose end is before our position; nothing is read until somebody decides.",
                &["source", "topic", "partition"],
            ),
            lag_seconds: gauge(
                "dlo_source_lag_seconds",
                "Age of the oldest message not yet stored; absent where it cannot be known.",
                lag,
            ),
            source_up: int_gauge("dlo_source_up", "1 while the source is connected and receiving.", &["source"]),
            inflight_bytes: int_gauge("dlo_inflight_bytes", "Bytes received and not yet committed.", &["source"]),
            letters: gauge("dlo_letters", "Letters in the table.", &["status", "team"]),
            replays: counter("dlo_replays_total", "Replay attempts by what is known of them.", &["source", "verdict"]),
            replay_seconds: histogram(
                "dlo_replay_seconds",
                "From claiming a replay to recording its outcome.",
                SECONDS,
                &["source"],
            ),
            replay_backlog: gauge("dlo_replay_backlog", "Replays waiting to be sent.", &["source"]),
            replay_oldest_due: gauge(
                "dlo_replay_oldest_due_seconds",
                "How long the oldest replay has been due.",
                &["source"],
            ),
            config_reload_success: register(
                r,
                Gauge::new("dlo_config_last_reload_success", "1 when the configuration was read without a fault."),
            ),
            registry: r.clone(),
        };
        let build =
            register(r, IntGaugeVec::new(opts!("dlo_build_info", "What is running."), &["version", "revision"]));
        build.with_label_values(&[env!("CARGO_PKG_VERSION"), option_env!("DLO_REVISION").unwrap_or("unknown")]).set(1);
        metrics.config_reload_success.set(1.0);
        metrics
    }

    /// The series of one source, all at zero.
    #[must_use]
    pub fn source(&self, source: &str, broker: &str) -> SourceMetrics {
        let by_source = [source, broker];
        let reasons = |vec: &IntCounterVec, names: &[&'static str]| -> Vec<(&'static str, IntCounter)> {
            names.iter().map(|reason| (*reason, vec.with_label_values(&[source, reason]))).collect()
        };
        let lost = self.lost.with_label_values(&[source, LOST_REASONS[0]]);
        SourceMetrics(Arc::new(Series {
            source: source.to_owned(),
            received: self.received.with_label_values(&by_source),
            stored: self.stored.with_label_values(&by_source),
            bytes_stored: self.bytes_stored.with_label_values(&by_source),
            duplicates: reasons(&self.duplicates, &DUPLICATE_REASONS),
            degraded: reasons(&self.degraded, &DEGRADED_REASONS),
            write_errors: reasons(&self.write_errors, &WRITE_ERRORS),
            died_again: self.replays.with_label_values(&[source, "DIED_AGAIN"]),
            stale_acks: self.stale_acks.with_label_values(&[source]),
            batch_rows: self.batch_rows.with_label_values(&[source]),
            batch_write_seconds: self.batch_write_seconds.with_label_values(&[source]),
            capture_seconds: self.capture_seconds.with_label_values(&[source]),
            up: self.source_up.with_label_values(&[source]),
            inflight_bytes: self.inflight_bytes.with_label_values(&[source]),
            lag_messages: self.lag_messages.clone(),
            lag_seconds: self.lag_seconds.clone(),
            partitions_stopped: self.partitions_stopped.clone(),
            lost,
            blocked: AtomicBool::new(false),
            last_complaint: Mutex::new(None),
            held: AtomicU64::new(0),
            trouble: Mutex::new(Some("not connected yet".to_owned())),
            seen: Mutex::default(),
        }))
    }

    /// The replay series of one source, all at zero.
    #[must_use]
    pub fn replay(&self, source: &str) -> ReplayMetrics {
        ReplayMetrics {
            verdicts: VERDICTS
                .iter()
                .map(|verdict| (*verdict, self.replays.with_label_values(&[source, verdict])))
                .collect(),
            seconds: self.replay_seconds.with_label_values(&[source]),
            backlog: self.replay_backlog.with_label_values(&[source]),
            oldest_due: self.replay_oldest_due.with_label_values(&[source]),
        }
    }

    /// Replaces the counts of letters, by status and team.
    pub fn set_letters<'a>(&self, counts: impl Iterator<Item = (&'a str, &'a str, i64)>) {
        self.letters.reset();
        for (status, team, count) in counts {
            self.letters.with_label_values(&[status, team]).set(count as f64);
        }
    }

    /// The text exposition format.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Writing into memory does not fail; what could not be encoded is missing, not fatal.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut out);
        out
    }

    /// Name, type, labels and help of everything, for `dlo metrics`.
    #[must_use]
    pub fn describe() -> Vec<Described> {
        let metrics = Self::new();
        let _ = (metrics.source("-", "-"), metrics.replay("-"));
        metrics.lag_messages.with_label_values(&["", "", "", ""]);
        metrics.lag_seconds.with_label_values(&["", "", "", ""]);
        metrics.partitions_stopped.with_label_values(&["", "", ""]);
        metrics.set_letters([("", "", 0)].into_iter());
        metrics.registry.gather().iter().map(Described::from).collect()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// One metric as a person reads of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    pub kind: String,
    pub labels: Vec<String>,
    pub help: String,
}

impl From<&MetricFamily> for Described {
    fn from(family: &MetricFamily) -> Self {
        let labels = family.get_metric().first().map(|m| m.get_label().iter().map(|l| l.name().to_owned()).collect());
        Self {
            name: family.name().to_owned(),
            kind: format!("{:?}", family.get_field_type()).to_lowercase(),
            labels: labels.unwrap_or_default(),
            help: family.help().to_owned(),
        }
    }
}

/// What one source counts.
#[derive(Clone, Debug)]
pub struct SourceMetrics(Arc<Series>);

#[derive(Debug)]
struct Series {
    source: String,
    received: IntCounter,
    stored: IntCounter,
    bytes_stored: IntCounter,
    duplicates: Vec<(&'static str, IntCounter)>,
    degraded: Vec<(&'static str, IntCounter)>,
    write_errors: Vec<(&'static str, IntCounter)>,
    died_again: IntCounter,
    stale_acks: IntCounter,
    batch_rows: Histogram,
    batch_write_seconds: Histogram,
    capture_seconds: Histogram,
    up: IntGauge,
    inflight_bytes: IntGauge,
    lag_messages: GaugeVec,
    lag_seconds: GaugeVec,
    partitions_stopped: IntGaugeVec,
    lost: IntCounter,
    blocked: AtomicBool,
    last_complaint: Mutex<Option<Instant>>,
    trouble: Mutex<Option<String>>,
    held: AtomicU64,
    seen: Mutex<Seen>,
}

fn add(counters: &[(&'static str, IntCounter)], reason: &str, n: usize) {
    if let Some((_, counter)) = counters.iter().find(|(name, _)| *name == reason) {
        counter.inc_by(n as u64);
    }
}

impl SourceMetrics {
    pub fn received(&self, messages: usize) {
        self.0.received.inc_by(messages as u64);
    }

    /// A batch is committed.
    pub fn stored(&self, rows: usize, bytes: usize, writing: Duration, since_received: Duration) {
        let s = &self.0;
        s.stored.inc_by(rows as u64);
        s.bytes_stored.inc_by(bytes as u64);
        s.batch_rows.observe(rows as f64);
        s.batch_write_seconds.observe(writing.as_secs_f64());
        s.capture_seconds.observe(since_received.as_secs_f64());
        self.see(|seen| seen.last_stored = Some(Instant::now()));
    }

    fn see(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.0.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was last seen at the broker.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A consumer group of this Kafka cluster was joined.
    pub fn joined(&self, cluster: &str) {
        self.see(|seen| seen.cluster = Some(cluster.to_owned()));
    }

    /// Rows that were marked as second copies.
    pub fn duplicates(&self, rows: usize) {
        add(&self.0.duplicates, "redelivery", rows);
    }

    /// Replays whose letters came back here.
    pub fn died_again(&self, replays: usize) {
        self.0.died_again.inc_by(replays as u64);
    }

    /// Rows that were stored with less than was known of them.
    pub fn degraded(&self, rows: usize) {
        add(&self.0.degraded, "refused", rows);
    }

    /// Rows that an earlier attempt had committed after all.
    pub fn stored_before(&self, rows: usize) {
        self.0.stored.inc_by(rows as u64);
    }

    pub fn stale(&self, acks: usize) {
        self.0.stale_acks.inc_by(acks as u64);
    }

    /// Received, but the session ended before they were written: the broker has them again.
    pub fn dropped(&self, messages: usize) {
        tracing::info!(source = %self.0.source, messages, "channel gone before writing: the broker delivers them again");
    }

    pub fn in_flight(&self, bytes: usize) {
        self.0.inflight_bytes.add(bytes as i64);
    }

    pub fn landed(&self, bytes: usize) {
        self.0.inflight_bytes.sub(bytes as i64);
    }

    /// Connected and receiving.
    pub fn up(&self) {
        self.0.up.set(1);
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Not receiving, and why.
    pub fn down(&self, why: String) {
        self.0.up.set(0);
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the source is not receiving.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn is_up(&self) -> bool {
        self.0.up.get() == 1
    }

    /// Delivered to us and not yet acked.
    pub fn set_held(&self, messages: u64) {
        self.0.held.store(messages, Ordering::Release);
    }

    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.held.load(Ordering::Acquire)
    }

    pub fn lag(&self, queue: &str, messages: u64, oldest: Option<Duration>) {
        self.see(|seen| *seen.waiting.entry(queue.to_owned()).or_default() = messages);
        let labels = [self.0.source.as_str(), queue, "", ""];
        self.0.lag_messages.with_label_values(&labels).set(messages as f64);
        match oldest {
            Some(age) => self.0.lag_seconds.with_label_values(&labels).set(age.as_secs_f64()),
            None => drop(self.0.lag_seconds.remove_label_values(&labels)),
        }
    }

    /// First offset and the one after the last, of all partitions that the brokers answered for.
    pub fn bounds<'a>(&self, all: impl Iterator<Item = (&'a str, i32, (i64, i64))>) {
        self.see(|seen| {
            seen.partitions.values_mut().for_each(|partition| partition.bounds = None);
            all.for_each(|(topic, number, bounds)| seen.partition(topic, number).bounds = Some(bounds));
            seen.partitions.retain(|_, partition| *partition != SeenPartition::default());
        });
    }

    /// Messages of a partition that are not in the table yet.
    pub fn partition_lag(&self, topic: &str, partition: i32, messages: u64) {
        let labels = [self.0.source.as_str(), "", topic, &partition.to_string()];
        self.0.lag_messages.with_label_values(&labels).set(messages as f64);
    }

    /// Somebody else tells it, or the partition is no more.
    pub fn no_partition_lag(&self, topic: &str, partition: i32) {
        let _ = self.0.lag_messages.remove_label_values(&[self.0.source.as_str(), "", topic, &partition.to_string()]);
    }

    /// A partition that is not read until somebody moves the position from here; `None`: it is read.
    pub fn stopped(&self, topic: &str, partition: i32, at: Option<i64>) {
        self.see(|seen| seen.partition(topic, partition).stopped_at = at);
        let labels = [self.0.source.as_str(), topic, &partition.to_string()];
        self.0.partitions_stopped.with_label_values(&labels).set(i64::from(at.is_some()));
    }

    /// Where somebody set the group's offset by hand, when the partition began to be read.
    pub fn reset(&self, topic: &str, partition: i32, to: Option<i64>) {
        self.see(|seen| seen.partition(topic, partition).reset_to = to);
    }

    /// Messages that the broker dropped before they could be read.
    pub fn lost(&self, messages: u64) {
        self.0.lost.inc_by(messages);
    }

    /// Batches can be written.
    pub fn writable(&self) {
        if self.0.blocked.swap(false, Ordering::AcqRel) {
            tracing::info!(source = %self.0.source, "the database takes rows again");
        }
    }

    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.0.blocked.load(Ordering::Acquire)
    }

    /// A batch could not be written, and is tried again after `pause`. Said once, then every half minute.
    pub fn unwritable(&self, reason: &str, error: &dyn std::error::Error, pause: Duration) {
        add(&self.0.write_errors, reason, 1);
        let error = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let first = !self.0.blocked.swap(true, Ordering::AcqRel);
        let mut last = self.0.last_complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if first || last.is_none_or(|at| at.elapsed() >= Duration::from_secs(30)) {
            *last = Some(Instant::now());
            tracing::warn!(source = %self.0.source, reason, error, retry_in = ?pause, "the database takes no rows; the batch is kept");
        }
    }
}

/// What the replay loop counts for one source.
#[derive(Clone, Debug)]
pub struct ReplayMetrics {
    verdicts: Vec<(&'static str, IntCounter)>,
    seconds: Histogram,
    backlog: Gauge,
    oldest_due: Gauge,
}

impl ReplayMetrics {
    pub fn outcome(&self, verdict: &str, took: Duration) {
        add(&self.verdicts, verdict, 1);
        self.seconds.observe(took.as_secs_f64());
    }

    pub fn waiting(&self, backlog: i64, oldest_due: Duration) {
        self.backlog.set(backlog as f64);
        self.oldest_due.set(oldest_due.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_of_a_source_exists_at_zero() {
        let metrics = Metrics::new();
        let _ = (metrics.source("orders", "rabbit"), metrics.replay("orders"));
        let text = String::from_utf8(metrics.render()).expect("text");
        for line in [
            "dlo_messages_received_total{broker=\"rabbit\",source=\"orders\"} 0",
            "dlo_messages_stored_total{broker=\"rabbit\",source=\"orders\"} 0",
            "dlo_duplicates_total{reason=\"redelivery\",source=\"orders\"} 0",
            "dlo_messages_degraded_total{reason=\"refused\",source=\"orders\"} 0",
            "dlo_messages_lost_total{reason=\"retention\",source=\"orders\"} 0",
            "dlo_batch_rows_count{source=\"orders\"} 0",
            "dlo_capture_seconds_count{source=\"orders\"} 0",
            "dlo_source_up{source=\"orders\"} 0",
            "dlo_replays_total{source=\"orders\",verdict=\"ROUTED\"} 0",
            "dlo_config_last_reload_success 1",
        ] {
            assert!(text.contains(line), "missing: {line}\n{text}");
        }
    }

    #[test]
    fn the_list_for_people_names_every_metric_with_its_labels() {
        let list = Metrics::describe();
        let lag = list.iter().find(|m| m.name == "dlo_source_lag_seconds").expect("listed");
        assert_eq!((lag.kind.as_str(), lag.labels.len()), ("gauge", 4));
        assert!(list.iter().all(|m| !m.help.is_empty() && m.name.starts_with("dlo_")));
    }
}
