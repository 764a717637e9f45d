//! Settings of clients: what the configuration says, and what dlo itself depends on.

use std::time::Duration;

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
};

/// How to reach a cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Its name in the configuration.
    pub name: String,
    pub bootstrap_servers: String,
    /// Properties of librdkafka, as the configuration gives them.
    pub properties: Vec<(String, String)>,
}

impl Cluster {
    /// A client of this cluster. What the configuration says wins over librdkafka's defaults, never over what is set
    /// on top of this.
    #[must_use]
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Topics that are made, and leaders that move, are noticed within this time.
        config.set("topic.metadata.refresh.interval.ms", "10000");
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.bootstrap_servers);
        // librdkafka tells at once what it could not connect to, and why, as log lines; its queue is ours.
        config.set_log_level(RDKafkaLogLevel::Info);
        config
    }
}

impl Cluster {
    /// Connects once and asks. Blocks.
    pub fn reach(&self, patience: Duration) -> Result<(), String> {
        let client: BaseConsumer<Logged> =
            self.client().create_with_context(Logged).map_err(|error| error.to_string())?;
        let Err(error) = client.fetch_metadata(None, patience) else { return Ok(()) };
        // Why it was not to be had is told as an event, amid log lines: a login, a certificate, a name.
        // The first says why; later ones only that all brokers are down.
        let mut told = (0..100).filter_map(|_| client.poll(Duration::from_millis(1))?.err());
        Err(told.next().unwrap_or(error).to_string())
    }
}

/// Those of these properties that librdkafka does not take, and why.
pub fn refused<'p>(properties: impl Iterator<Item = (&'p str, &'p str)>) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for (name, value) in properties {
        let mut config = ClientConfig::new();
        config.set(name, value);
        if let Err(error) = config.create_native_config() {
            let why = match error {
                KafkaError::ClientConfig(_, why, ..) => why,
                other => other.to_string(),
            };
            faults.push((name.to_owned(), why));
        }
    }
    faults
}

/// A client whose log lines become ours.
#[derive(Clone, Copy, Debug)]
pub struct Logged;

impl ClientContext for Logged {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, words: &str) {
        log(level as i32, facility, words);
    }

    fn error(&self, error: KafkaError, why: &str) {
        tracing::debug!(%error, why, "kafka");
    }
}

impl ConsumerContext for Logged {}

/// Levels as in syslog. What librdkafka reports as an error is an outage it is busy with: a warning of ours.
pub(super) fn log(level: i32, facility: &str, words: &str) {
    match level {
        // Settings of consumers that a producer gets as well, and the other way round: one list serves both.
        _ if facility == "CONFWARN" => tracing::debug!(facility, "{words}"),
        0..=4 => tracing::warn!(facility, "{words}"),
        5 | 6 => tracing::info!(facility, "{words}"),
        _ => tracing::debug!(facility, "{words}"),
    }
}
