//! Broker addresses: `amqp://user:password@host:port/vhost?heartbeat=10`.
//!
//! Read as RabbitMQ's URI specification says, which its clients do not all do, and stricter where they guess:
//!
//! | address | virtual host |
//! |---|---|
//! | `amqp://host` | `/`, the broker's default |
//! | `amqp://host/%2f` | `/` |
//! | `amqp://host/` | the one with the empty name; see [`BrokerAddress::vhost_hint`] |
//! | `amqp://host/a%2fb` | `a/b` |
//! | `amqp://host/a/b` | refused: is it `a` or `a/b`? |
//!
//! An address without a user has none: nothing falls back to guest. `@ : / ? # %` in names and passwords are
//! percent-encoded, everything else may stand as it is. No error repeats a part of the address that may be secret.

mod parse;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Why a text is not the address of a broker.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("broker address must begin with amqp:// or amqps://")]
    Scheme,
    #[error("broker address has no host")]
    NoHost,
    #[error("broker address has an IPv6 host without its closing bracket")]
    Ipv6,
    #[error("{0} of the broker address holds a % that is no percent-encoding; write %25 for %")]
    Percent(&'static str),
    #[error("{0} of the broker address is not UTF-8")]
    NotUtf8(&'static str),
    #[error("{0} of the broker address is {1} bytes long, AMQP allows 255")]
    TooLong(&'static str, usize),
    #[error(
        "port of the broker address is not a number from 1 to 65535 (in a password, write %40 for @, %3a for :, %2f for /, %3f for ?, %23 for #)"
    )]
    Port,
    #[error("virtual host of the broker address has a / in it; write %2f")]
    VhostSlash,
    #[error("broker address has an @ behind its host; write %40 for it, and %2f for / and %3f for ? in a password")]
    AtSign,
    #[error("broker address has a #; write %23 for it in a password or virtual host")]
    Fragment,
    #[error(
        "broker address has the unknown option {0}; known are heartbeat, frame_max, channel_max, connection_timeout, auth_mechanism"
    )]
    UnknownOption(String),
    #[error("option {0} of the broker address must be {1}")]
    Option(&'static str, &'static str),
    #[error("broker address has no user; write amqp://user:password@host, or set auth_mechanism=external")]
    NoUser,
}

/// A password. Shows itself to [`Password::expose`] only.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How we say who we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    #[default]
    Plain,
    /// By the TLS client certificate.
    External,
}

/// Where a broker is and who we are to it. Debug and Display leave the password out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerAddress {
    pub tls: bool,
    /// A name, or an IP address without brackets.
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<Password>,
    pub vhost: String,
    pub auth: Auth,
    /// In seconds; 0 is none. Without it, what the broker proposes.
    pub heartbeat_s: Option<u16>,
    /// The largest frame we want, in bytes; 0 is any. Without it, what the broker proposes.
    pub frame_max: Option<u32>,
    pub channel_max: Option<u16>,
    /// For the whole of connecting.
    pub connection_timeout: Option<Duration>,
}

impl BrokerAddress {
    /// User and password, both present.
    ///
    /// A user without a password has the empty one: that is what the address says.
    pub fn credentials(&self) -> Result<(&str, &str), AddressError> {
        let user = self.user.as_deref().ok_or(AddressError::NoUser)?;
        Ok((user, self.password.as_ref().map_or("", Password::expose)))
    }

    /// What to tell a person when the broker does not know the virtual host and the address is likely the reason.
    #[must_use]
    pub fn vhost_hint(&self) -> Option<&'static str> {
        self.vhost.is_empty().then_some(
            "a / at the end of a broker address names the virtual host with the empty name; leave it out for the default one",
        )
    }

    /// The same address for lapin.
    pub fn to_lapin(&self) -> Result<AMQPUri, AddressError> {
        let (username, password) = match self.auth {
            Auth::External => (self.user.as_deref().unwrap_or(""), ""),
            Auth::Plain => self.credentials()?,
        };
        Ok(AMQPUri {
            scheme: if self.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: username.to_owned(), password: password.to_owned() },
                host: self.host.clone(),
                port: self.port,
            },
            vhost: self.vhost.clone(),
            query: AMQPQueryString {
                frame_max: self.frame_max,
                channel_max: self.channel_max,
                heartbeat: self.heartbeat_s,
                connection_timeout: self.connection_timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
                auth_mechanism: Some(match self.auth {
                    Auth::Plain => SASLMechanism::Plain,
                    Auth::External => SASLMechanism::External,
                }),
            },
        })
    }
}

impl FromStr for BrokerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse::address(text)
    }
}

/// For logs and error messages: `amqp://user@host:port/vhost`.
impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "amqps://" } else { "amqp://" })?;
        if let Some(user) = &self.user {
            write!(f, "{}@", utf8_percent_encode(user, NON_ALPHANUMERIC))?;
        }
        let host = &self.host;
        if host.contains(':') {
            write!(f, "[{host}]")?
        } else {
            f.write_str(host)?
        }
        write!(f, ":{}/{}", self.port, utf8_percent_encode(&self.vhost, NON_ALPHANUMERIC))
    }
}

#[cfg(test)]
mod tests;
