use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, address::HookAddress, check::Checks, path::Path, scalar::Count, sources::unknown_broker};

/// A place letters are sent to: an exchange or a queue of RabbitMQ, a topic of Kafka, or a web address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Destination {
    /// The name of the broker; without it the broker the letter came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// RabbitMQ: the exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// RabbitMQ: the routing key. `{event_type}`, `{service}` and `{key}` stand for the letter's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// RabbitMQ: a queue, through the default exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Kafka: the topic. `{event_type}` and `{service}` stand for the letter's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Kafka: the partition; without it the key chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Count<0, { i32::MAX as u32 }>>,
    /// An address that takes the body by POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<HookAddress>,
}

const PLACEHOLDERS: [&str; 3] = ["event_type", "service", "key"];

impl Destination {
    /// `needs_broker`: there is no broker the letter came from.
    pub(super) fn check(&self, config: &Config, path: &Path, needs_broker: bool, checks: &mut Checks<'_>) {
        let kinds = [self.exchange.is_some(), self.queue.is_some(), self.topic.is_some(), self.webhook.is_some()];
        if kinds.iter().filter(|given| **given).count() != 1 {
            checks.fault(path.clone(), "needs exactly one of `exchange`, `queue`, `topic` and `webhook`");
        }
        if self.exchange.is_none() && self.routing_key.is_some() {
            checks.fault(path.clone().key("routing_key"), "needs `exchange` beside it");
        }
        if self.topic.is_none() && self.partition.is_some() {
            checks.fault(path.clone().key("partition"), "needs `topic` beside it");
        }
        self.check_broker(config, path, needs_broker, checks);
        for (key, text) in [("routing_key", &self.routing_key), ("topic", &self.topic)] {
            if let Some(name) = text.as_deref().and_then(unknown_placeholder) {
                let allowed = PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
                checks.fault(path.clone().key(key), format!("unknown placeholder \"{{{name}}}\"; allowed: {allowed}"));
            }
        }
    }

    fn check_broker(&self, config: &Config, path: &Path, needs_broker: bool, checks: &mut Checks<'_>) {
        let kind = if self.topic.is_some() { "kafka" } else { "rabbitmq" };
        match self.broker.as_ref().map(|name| (name, config.brokers.get(name))) {
            None if needs_broker && self.webhook.is_none() => checks.fault(path.clone(), "`broker` is required here"),
            Some((name, None)) => unknown_broker(config, &path.clone().key("broker"), name, checks),
            Some((_, Some(_))) if self.webhook.is_some() => {
                checks.fault(path.clone().key("broker"), "a webhook has no broker; leave one of them out");
            }
            Some((name, Some(broker))) if broker.kind() != kind => {
                let message = format!("\"{name}\" is a {} broker, and this place is one of {kind}", broker.kind());
                checks.fault(path.clone().key("broker"), message);
            }
            _ => {}
        }
    }
}

fn unknown_placeholder(text: &str) -> Option<&str> {
    let names = text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap_or(rest));
    names.into_iter().find(|name| !PLACEHOLDERS.contains(name))
}
