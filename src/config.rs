//! The configuration: found, read, checked against itself, and shown without its secrets.
//!
//! [`Config::load`] finds a file or falls back to the environment. Every fault it can find is reported at once, with
//! key, line and what is allowed. A loaded configuration needs no further check before ports are opened.

mod address;
mod alerts;
mod brokers;
mod capture;
mod check;
mod database;
mod destination;
mod environment;
mod expand;
mod fault;
mod http;
mod load;
mod log;
mod metrics;
mod owners;
mod path;
mod pending;
mod read;
mod replay;
mod retention;
mod routes;
mod rules;
mod scalar;
mod schema;
mod shutdown;
mod sources;
mod summary;
mod tls;
mod tree;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use address::{
    Address, Amqp, AmqpAddress, Hook, HookAddress, Http as HttpProtocol, HttpAddress, Postgres, PostgresAddress,
    Protocol,
};
pub use alerts::{Alert, AlertKind, AlertOn};
pub use brokers::{Broker, Kafka, Properties, Rabbitmq};
pub use capture::Capture;
pub use database::Database;
pub use destination::Destination;
pub use fault::ConfigErrors;
pub use http::{Auth, Http};
pub use load::{Environment, LoadOptions};
pub use log::{Log, LogFormat};
pub use metrics::Metrics;
pub use owners::Owner;
pub use replay::{InDoubt, Replay};
pub use retention::Retention;
pub use routes::Route;
pub use rules::{Act, Headers, Match, RetryPolicy, Rule};
pub use scalar::{
    ByteSize, Compare, Count, Duration, Glob, Globs, Listen, Pem, Percent, REDACTED, Rate, Secret, Start, Topic,
};
pub use schema::schema;
pub use shutdown::Shutdown;
pub use sources::{Classifier, Place, QueueType, ReplayTarget, Source, SourceReplay};
pub use summary::guarantee;
pub use tls::Tls;

/// The configuration of Dead Letter Office. `${env:NAME}` and `${file:PATH}` may stand inside any value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The PostgreSQL database that keeps the dead letters.
    pub database: Database,
    /// Brokers by name.
    #[serde(default)]
    pub brokers: BTreeMap<String, Broker>,
    /// What we capture from.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// Which team owns which services; the first match fills column `team`.
    #[serde(default)]
    pub owners: Vec<Owner>,
    /// From the brokers into the table.
    #[serde(default)]
    pub capture: Capture,
    /// From the table back home.
    #[serde(default)]
    pub replay: Replay,
    /// What happens to a new letter by itself; the first match wins, and what none matches is held.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Where letters go that services wrote into the table themselves.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Who is told when something happens.
    #[serde(default)]
    pub alerts: Vec<Alert>,
    /// The HTTP API and the pages.
    #[serde(default)]
    pub http: Http,
    /// Metrics, liveness and readiness.
    #[serde(default)]
    pub metrics: Metrics,
    /// What is logged, and how.
    #[serde(default)]
    pub log: Log,
    /// How long letters are kept.
    #[serde(default)]
    pub retention: Retention,
    /// The orderly stop.
    #[serde(default)]
    pub shutdown: Shutdown,
    /// Where it was read from and what was doubtful.
    #[serde(skip)]
    #[schemars(skip)]
    loaded: load::Loaded,
}

fn yes() -> bool {
    true
}
