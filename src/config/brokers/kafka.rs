use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::config::{
    check::Checks,
    path::Path,
    scalar::{REDACTED, Secret},
    tls::Tls,
};

/// A Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// Some of its brokers, as `host:port`, with commas between.
    pub bootstrap_servers: String,
    /// Anything librdkafka knows, such as `security.protocol: sasl_ssl`.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Properties,
    /// Further properties of the producer that sends replays; they go before `properties`.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub replay_properties: Properties,
    /// Certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// Settings of librdkafka. Those that may be secrets are not shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(with = "BTreeMap<String, PropertyValue>", inline)]
pub struct Properties(BTreeMap<String, Secret>);

#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum PropertyValue {
    Text(String),
    Number(f64),
    Switch(bool),
}

/// Settings that dlo itself depends on, and why.
const OURS: &[(&str, &str)] = &[
    ("bootstrap.servers", "it has its own key `bootstrap_servers`"),
    ("metadata.broker.list", "it has its own key `bootstrap_servers`"),
    ("group.id", "it has its own key `group` in the source"),
    ("client.id", "members of a group know each other by it"),
    ("partition.assignment.strategy", "partitions move one by one (cooperative-sticky)"),
    ("group.protocol", "partitions move one by one (cooperative-sticky)"),
    ("auto.offset.reset", "where to begin is the source's key `start`, and what is gone is counted"),
    ("enable.partition.eof", "dlo needs it to know that all was read"),
    ("enable.auto.commit", "dlo commits when the rows are in the table"),
    ("enable.auto.offset.store", "dlo commits when the rows are in the table"),
    ("enable.idempotence", "replays are always sent by an idempotent producer"),
    ("acks", "replays are always confirmed by all replicas"),
];

impl Properties {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose()))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and value as they may be shown.
    fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| (name, if may_be_secret(name) { REDACTED } else { value }))
    }

    fn check(&self, path: &Path, checks: &mut Checks<'_>) {
        for (name, why) in crate::kafka::client::refused(self.iter()) {
            checks.fault(path.clone().key(&name), format!("librdkafka does not take this: {why}"));
        }
        for &(name, reason) in OURS {
            if self.0.contains_key(name) {
                checks.fault(path.clone().key(name), format!("leave this out: {reason}"));
            }
        }
    }
}

fn may_be_secret(name: &str) -> bool {
    let secret = ["password", "secret", "token", "jaas", "pem", "oauthbearer.config", "username", "key"];
    secret.iter().any(|word| name.contains(word)) && !name.ends_with(".location")
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown())
    }
}

impl Kafka {
    pub(super) fn check(&self, path: &Path, checks: &mut Checks<'_>) {
        let servers = path.clone().key("bootstrap_servers");
        for server in self.bootstrap_servers.split(',') {
            if let Some(message) = fault_of_server(server.trim()) {
                checks.fault(servers.clone(), format!("{message}; allowed: host:9092, with commas between several"));
                break;
            }
        }
        self.properties.check(&path.clone().key("properties"), checks);
        self.replay_properties.check(&path.clone().key("replay_properties"), checks);
    }
}

fn fault_of_server(server: &str) -> Option<&'static str> {
    if server.contains("://") || server.contains('@') || server.contains('/') {
        return Some("a server is a host and a port, not an address; a login goes into `properties`");
    }
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "9092"));
    let host = url::Host::parse(host);
    match (host, port.parse::<u16>()) {
        (_, Err(_) | Ok(0)) => Some("a port is not a number from 1 to 65535"),
        (Err(_), _) => Some("a host is missing, or is no name and no IP address"),
        (Ok(_), Ok(_)) => None,
    }
}
