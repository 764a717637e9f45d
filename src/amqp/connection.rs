//! One lapin connection shared by everything that consumes from (or publishes to) one broker.

use std::{sync::Arc, time::Duration};

use lapin::{
    Channel, Connection, ConnectionProperties,
    tcp::{OwnedIdentity, OwnedTLSConfig},
};
use tokio::{sync::Mutex, time::timeout};

use super::{
    raw::{ConnectOptions, RawClient, RawError, TlsOptions},
    uri::{AddressError, BrokerAddress},
};

/// For the whole of connecting to one host.
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);
/// Without a word in the address: a dead peer is noticed within two of these.
const HEARTBEAT_S: u16 = 20;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{address}: {error}")]
    Refused { address: String, error: lapin::Error },
    #[error("{address}: no answer within {} s", CONNECT_DEADLINE.as_secs())]
    Silent { address: String },
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("no broker address is configured")]
    NoAddress,
}

/// A broker's hosts and our standing connection to one of them.
#[derive(Debug)]
pub struct Broker {
    /// The broker's name in the configuration.
    pub name: String,
    addresses: Vec<BrokerAddress>,
    tls: TlsOptions,
    /// What people see in RabbitMQ's list of connections.
    connection_name: String,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    connection: Option<Arc<Connection>>,
    /// The host to try first: the one after the last that failed.
    next: usize,
}

impl Broker {
    #[must_use]
    pub fn new(name: &str, addresses: Vec<BrokerAddress>, tls: TlsOptions, role: &str) -> Self {
        let connection_name = format!("dlo {role}");
        Self { name: name.to_owned(), addresses, tls, connection_name, current: Mutex::default() }
    }

    #[must_use]
    pub fn vhost(&self) -> &str {
        self.addresses.first().map_or("/", |address| address.vhost.as_str())
    }

    /// A new channel on the standing connection, which is made when there is none.
    pub async fn channel(&self) -> Result<Channel, ConnectError> {
        let mut current = self.current.lock().await;
        if let Some(connection) = current.connection.as_ref().filter(|c| c.status().connected()) {
            match timeout(CONNECT_DEADLINE, connection.create_channel()).await {
                Ok(Ok(channel)) => return Ok(channel),
                // Half dead: a new connection is the better start.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        current.connection = None;
        let (connection, address) = self.connect(&mut current.next).await?;
        let channel = match timeout(CONNECT_DEADLINE, connection.create_channel()).await {
            Ok(channel) => channel.map_err(|error| ConnectError::Refused { address, error })?,
            Err(_) => return Err(ConnectError::Silent { address }),
        };
        current.connection = Some(connection);
        Ok(channel)
    }

    /// Tries each host once, beginning with `next`.
    async fn connect(&self, next: &mut usize) -> Result<(Arc<Connection>, String), ConnectError> {
        let mut last = ConnectError::NoAddress;
        for _ in 0..self.addresses.len() {
            let address = &self.addresses[*next % self.addresses.len()];
            match self.connect_to(address).await {
                Ok(connection) => return Ok((Arc::new(connection), address.to_string())),
                Err(error) => last = error,
            }
            *next += 1;
        }
        Err(last)
    }

    async fn connect_to(&self, address: &BrokerAddress) -> Result<Connection, ConnectError> {
        let mut uri = address.to_lapin()?;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
        let properties = ConnectionProperties::default().with_connection_name(self.connection_name.as_str().into());
        let refused = |error| ConnectError::Refused { address: address.to_string(), error };
        let runtime = lapin::runtime::default_runtime().map_err(refused)?;
        let connecting = Connection::connect_uri_with_config(uri, properties, self.lapin_tls(), runtime);
        match timeout(CONNECT_DEADLINE, connecting).await {
            Ok(connection) => connection.map_err(refused),
            Err(_) => Err(ConnectError::Silent { address: address.to_string() }),
        }
    }

    fn lapin_tls(&self) -> OwnedTLSConfig {
        let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
        OwnedTLSConfig {
            cert_chain: self.tls.ca_pem.as_deref().map(text),
            identity: self.tls.identity.as_ref().map(|identity| OwnedIdentity::PKCS8 {
                pem: identity.certificates_pem.clone(),
                key: identity.key_pem.clone(),
            }),
        }
    }

    /// A connection that reads what lapin's types cannot hold, to the first host that answers.
    pub async fn raw(&self, within: Duration) -> Result<RawClient, RawError> {
        let options =
            ConnectOptions { connection_name: format!("{} (raw)", self.connection_name), tls: self.tls.clone() };
        let mut last = RawError::ClosedByUs;
        for address in &self.addresses {
            match RawClient::connect(address, &options, within).await {
                Ok(client) => return Ok(client),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Says goodbye.
    pub async fn close(&self) {
        let connection = self.current.lock().await.connection.take();
        if let Some(connection) = connection {
            let _ = timeout(Duration::from_secs(2), connection.close(200, "dlo stops".into())).await;
        }
    }
}
