//! Brokers by name: how to reach them.

mod kafka;
mod rabbitmq;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check::Checks, path::Path, tls::Tls};

pub use kafka::{Kafka, Properties};
pub use rabbitmq::Rabbitmq;

/// A broker: exactly one of `rabbitmq` and `kafka`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
#[schemars(with = "Written")]
#[expect(clippy::large_enum_variant, reason = "a process has a handful of brokers")]
pub enum Broker {
    Rabbitmq(Rabbitmq),
    Kafka(Kafka),
}

/// A broker: exactly one of `rabbitmq` and `kafka`.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Broker")]
struct Written {
    /// A RabbitMQ broker or cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rabbitmq: Option<Rabbitmq>,
    /// A Kafka cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kafka: Option<Kafka>,
    /// Certificates; may also stand in the section of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
}

impl TryFrom<Written> for Broker {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let place = |own: Option<Tls>| match (own, written.tls) {
            (Some(_), Some(_)) => Err("`tls` is given twice, here and one section further in; leave one out"),
            (own, outer) => Ok(own.or(outer)),
        };
        match (written.rabbitmq, written.kafka) {
            (Some(mut broker), None) => {
                broker.tls = place(broker.tls)?;
                Ok(Self::Rabbitmq(broker))
            }
            (None, Some(mut broker)) => {
                broker.tls = place(broker.tls)?;
                Ok(Self::Kafka(broker))
            }
            (None, None) => Err("a broker needs one of the sections `rabbitmq` and `kafka`".to_owned()),
            (Some(_), Some(_)) => Err("a broker has only one of `rabbitmq` and `kafka`; make two brokers".to_owned()),
        }
    }
}

impl From<Broker> for Written {
    fn from(broker: Broker) -> Self {
        match broker {
            Broker::Rabbitmq(broker) => Self { rabbitmq: Some(broker), ..Self::default() },
            Broker::Kafka(broker) => Self { kafka: Some(broker), ..Self::default() },
        }
    }
}

impl Broker {
    /// As in column `broker_kind`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rabbitmq(_) => "rabbitmq",
            Self::Kafka(_) => "kafka",
        }
    }

    pub(super) fn tls_mut(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Rabbitmq(broker) => broker.tls.as_mut(),
            Self::Kafka(broker) => broker.tls.as_mut(),
        }
    }

    fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Rabbitmq(broker) => broker.tls.as_ref(),
            Self::Kafka(broker) => broker.tls.as_ref(),
        }
    }

    pub(super) fn check(&self, name: &str, checks: &mut Checks<'_>) {
        let path = Path::from("brokers").key(name);
        checks.name(path.clone(), name);
        match self {
            Self::Rabbitmq(broker) => broker.check(&path.clone().key("rabbitmq"), checks),
            Self::Kafka(broker) => broker.check(&path.clone().key("kafka"), checks),
        }
        if let Some(tls) = self.tls() {
            let inner = path.clone().key(self.kind()).key("tls");
            let path = if checks.is_given(&inner) { inner } else { path.key("tls") };
            tls.check(path, checks);
        }
    }
}
