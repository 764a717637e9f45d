//! Our standing connections to one broker: lapin's, which declares, and our own, which consumes and publishes. Each is
//! made when it is first wanted and shared by everyone who wants a channel.

use std::time::Duration;

use lapin::{
    Channel, Connection, ConnectionProperties,
    tcp::{AMQPUriTcpExt, RustlsConnector, TLSConfig},
    uri::{AMQPScheme, AMQPUri},
};
use tokio::{sync::Mutex, time::timeout};

use super::{
    raw::{ConnectOptions, RawChannel, RawConnection, RawError, TlsOptions},
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
    #[error("{address}: {error}")]
    Raw { address: String, error: RawError },
    #[error("{address}: no answer within {} s", CONNECT_DEADLINE.as_secs())]
    Silent { address: String },
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("no broker address is configured")]
    NoAddress,
}

/// What is known of the standing connection of our own client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandingNow {
    Gone,
    Open,
    /// The broker is short of memory or disk space: its reason.
    Blocked(String),
}

/// A broker's hosts and our standing connections to one of them.
#[derive(Debug)]
pub struct Broker {
    /// The broker's name in the configuration.
    pub name: String,
    addresses: Vec<BrokerAddress>,
    tls: TlsOptions,
    /// What people see in RabbitMQ's list of connections.
    connection_name: String,
    lapin: Mutex<Standing<Connection>>,
    raw: Mutex<Standing<RawConnection>>,
}

#[derive(Debug)]
struct Standing<C> {
    /// The connection, and to whom.
    connection: Option<(C, String)>,
    /// The host to try first: the one after the last that failed.
    next: usize,
}

impl<C> Default for Standing<C> {
    fn default() -> Self {
        Self { connection: None, next: 0 }
    }
}

impl Broker {
    #[must_use]
    pub fn new(name: &str, addresses: Vec<BrokerAddress>, tls: TlsOptions, role: &str) -> Self {
        let connection_name = format!("dlo {role}");
        Self { name: name.to_owned(), addresses, tls, connection_name, lapin: Mutex::default(), raw: Mutex::default() }
    }

    #[must_use]
    pub fn vhost(&self) -> &str {
        self.addresses.first().map_or("/", |address| address.vhost.as_str())
    }

    /// The same broker over connections of its own: for what may cost one.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self {
            name: self.name.clone(),
            addresses: self.addresses.clone(),
            tls: self.tls.clone(),
            connection_name: format!("{} (apart)", self.connection_name),
            lapin: Mutex::default(),
            raw: Mutex::default(),
        }
    }

    /// A channel that declares, on the standing connection, which is made when there is none.
    pub async fn channel(&self) -> Result<Channel, ConnectError> {
        let mut standing = self.lapin.lock().await;
        if let Some((connection, _)) = standing.connection.as_ref().filter(|(c, _)| c.status().connected())
            && let Ok(Ok(channel)) = timeout(CONNECT_DEADLINE, connection.create_channel()).await
        {
            return Ok(channel);
        }
        // None, or half dead: a new connection is the better start.
        standing.connection = None;
        let (connection, address) = self.rotate(&mut standing.next, |address| self.connect_to(address)).await?;
        let channel = match timeout(CONNECT_DEADLINE, connection.create_channel()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(ConnectError::Refused { address, error }),
            Err(_) => return Err(ConnectError::Silent { address }),
        };
        standing.connection = Some((connection, address));
        Ok(channel)
    }

    /// A channel that consumes or publishes, on the standing connection of our own client, which is made when there is none.
    pub async fn raw_channel(&self) -> Result<RawChannel, ConnectError> {
        let mut standing = self.raw.lock().await;
        if let Some((connection, address)) = &standing.connection {
            match connection.open_channel(CONNECT_DEADLINE).await {
                Ok(channel) => return Ok(channel),
                Err(error @ RawError::NoChannel(_)) => {
                    return Err(ConnectError::Raw { address: address.clone(), error });
                }
                // Half dead: a new connection is the better start. The old one lives as long as its channels do.
                Err(_) => standing.connection = None,
            }
        }
        let (connection, address) = self.rotate(&mut standing.next, |address| self.connect_raw(address)).await?;
        match connection.open_channel(CONNECT_DEADLINE).await {
            Ok(channel) => {
                standing.connection = Some((connection, address));
                Ok(channel)
            }
            Err(error) => Err(ConnectError::Raw { address, error }),
        }
    }

    /// Whether our own client has a standing connection, as far as is known, and the broker takes messages by it.
    pub async fn standing(&self) -> StandingNow {
        let standing = self.raw.lock().await;
        match standing.connection.as_ref().filter(|(connection, _)| connection.is_open()) {
            None => StandingNow::Gone,
            Some((connection, address)) => match connection.blocked() {
                Some(why) => StandingNow::Blocked(format!("{address} takes no messages at present: {why}")),
                None => StandingNow::Open,
            },
        }
    }

    /// Tries each host once, beginning with `next`.
    async fn rotate<'a, C, F: Future<Output = Result<C, ConnectError>>>(
        &'a self,
        next: &mut usize,
        connect: impl Fn(&'a BrokerAddress) -> F,
    ) -> Result<(C, String), ConnectError> {
        let mut last = ConnectError::NoAddress;
        for _ in 0..self.addresses.len() {
            let address = &self.addresses[*next % self.addresses.len()];
            match connect(address).await {
                Ok(connection) => return Ok((connection, address.to_string())),
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
        // lapin's own TLS trusts the machine's authorities beside the configured one, and fails where there are none.
        let tls = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => Some(RustlsConnector::from(
                self.tls.client_config().map_err(|error| ConnectError::Raw { address: address.to_string(), error })?,
            )),
        };
        let connect = async move |mut uri: AMQPUri, runtime| {
            uri.scheme = AMQPScheme::AMQP;
            let stream = uri.connect_with_config_async(TLSConfig::default(), &runtime).await?;
            match &tls {
                None => Ok(stream),
                Some(tls) => Ok(stream.into_rustls(tls, &uri.authority.host).await?),
            }
        };
        match timeout(CONNECT_DEADLINE, Connection::connector(uri, runtime, connect, properties)).await {
            Ok(connection) => connection.map_err(refused),
            Err(_) => Err(ConnectError::Silent { address: address.to_string() }),
        }
    }

    async fn connect_raw(&self, address: &BrokerAddress) -> Result<RawConnection, ConnectError> {
        let mut to = address.clone();
        to.heartbeat_s.get_or_insert(HEARTBEAT_S);
        let options = ConnectOptions { connection_name: self.connection_name.clone(), tls: self.tls.clone() };
        let connected = RawConnection::connect(&to, &options, CONNECT_DEADLINE).await;
        connected.map_err(|error| ConnectError::Raw { address: address.to_string(), error })
    }

    /// Says goodbye.
    pub async fn close(&self) {
        const WITHIN: Duration = Duration::from_secs(2);
        if let Some((connection, _)) = self.raw.lock().await.connection.take() {
            let _ = connection.close(WITHIN).await;
        }
        if let Some((connection, _)) = self.lapin.lock().await.connection.take() {
            let _ = timeout(WITHIN, connection.close(200, "dlo stops".into())).await;
        }
    }
}
