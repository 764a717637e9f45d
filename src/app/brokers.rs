//! From the brokers of the configuration to connections.

use std::{collections::HashMap, sync::Arc};

use crate::{
    amqp::{
        connection::Broker,
        raw::{TlsIdentity, TlsOptions},
        uri::BrokerAddress,
    },
    config::{self, AmqpAddress, Config, Pem, Rabbitmq, Tls},
    kafka::client::Cluster,
    replay::{Publisher, kafka::KafkaPublisher, rabbitmq::RabbitPublisher},
};

/// Connections for one role (capture, replay, watch): a broker that blocks publishers must not block acks.
pub(crate) struct Brokers(HashMap<String, Arc<Broker>>);

impl Brokers {
    pub(crate) fn new(config: &Config, role: &str) -> Result<Self, String> {
        let mut brokers = HashMap::new();
        for (name, broker) in &config.brokers {
            let config::Broker::Rabbitmq(rabbit) = broker else { continue };
            let urls = if role == "replay" { rabbit.replay_addresses() } else { rabbit.addresses() };
            let addresses = urls.iter().map(|url| address(name, url)).collect::<Result<_, _>>()?;
            let tls = tls(name, rabbit)?;
            brokers.insert(name.clone(), Arc::new(Broker::new(name, addresses, tls, role)));
        }
        Ok(Self(brokers))
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Broker>, String> {
        self.0.get(name).cloned().ok_or_else(|| format!("broker {name:?} is not a RabbitMQ"))
    }
}

/// A publisher for every broker.
pub(super) fn publishers(config: &Config) -> Result<HashMap<String, Arc<dyn Publisher>>, String> {
    let rabbits = Brokers::new(config, "replay")?.0.into_iter();
    let mut publishers: HashMap<String, Arc<dyn Publisher>> =
        rabbits.map(|(name, broker)| (name, Arc::new(RabbitPublisher::new(broker)) as _)).collect();
    for (name, broker) in &config.brokers {
        if let config::Broker::Kafka(kafka) = broker {
            let mut cluster = cluster(config, name)?;
            let own = kafka.replay_properties.iter();
            cluster.properties.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
            publishers.insert(name.clone(), Arc::new(KafkaPublisher::new(cluster, config.replay.lease.get())));
        }
    }
    Ok(publishers)
}

/// How to reach the Kafka cluster of that name.
pub(crate) fn cluster(config: &Config, name: &str) -> Result<Cluster, String> {
    let Some(config::Broker::Kafka(kafka)) = config.brokers.get(name) else {
        return Err(format!("broker {name:?} is not a Kafka cluster"));
    };
    let mut properties: Vec<(String, String)> = Vec::new();
    if let Some(Tls { ca, cert, key }) = &kafka.tls {
        properties.push(("security.protocol".to_owned(), "ssl".to_owned()));
        for (property, pem) in [("ssl.ca.pem", ca), ("ssl.certificate.pem", cert), ("ssl.key.pem", key)] {
            let Some(pem) = pem else { continue };
            let read = pem.read().map_err(|error| format!("brokers.{name}.tls: {error}"))?;
            properties.push((property.to_owned(), String::from_utf8_lossy(&read).into_owned()));
        }
    }
    // Those that are given win: TLS with a login is `security.protocol: sasl_ssl`.
    properties.extend(kafka.properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(Cluster { name: name.to_owned(), bootstrap_servers: kafka.bootstrap_servers.clone(), properties })
}

fn address(broker: &str, url: &AmqpAddress) -> Result<BrokerAddress, String> {
    url.expose().parse().map_err(|error| format!("brokers.{broker}.rabbitmq: {error}"))
}

fn tls(broker: &str, rabbit: &Rabbitmq) -> Result<TlsOptions, String> {
    let Some(Tls { ca, cert, key }) = &rabbit.tls else { return Ok(TlsOptions::default()) };
    let read = |pem: &Pem| pem.read().map_err(|error| format!("brokers.{broker}.tls: {error}"));
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some(TlsIdentity { certificates_pem: read(cert)?, key_pem: read(key)? }),
        _ => None,
    };
    Ok(TlsOptions { ca_pem: ca.as_ref().map(read).transpose()?, identity, server_name: None })
}
