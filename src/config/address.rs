//! Addresses of brokers, databases and web services: strict about what is encoded, silent about passwords.

mod kinds;
mod parse;
mod protocol;

use std::{fmt, marker::PhantomData};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::scalar::{REDACTED, Scalar, Secret};

pub use kinds::{AmqpAddress, HookAddress, HttpAddress, PostgresAddress};
pub use protocol::{Amqp, Hook, Http, Postgres, Protocol};

/// Everything but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An address. `Display` and `Debug` show `amqp://user:***@host`.
pub struct Address<P> {
    parts: Parts,
    protocol: PhantomData<fn() -> P>,
}

/// User and password are decoded; path and query are as written.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Parts {
    scheme: String,
    user: Option<String>,
    password: Option<Secret>,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

impl<P: Protocol> Address<P> {
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.parts.scheme
    }

    /// Decoded.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.parts.user.as_deref()
    }

    /// Decoded.
    #[must_use]
    pub fn password(&self) -> Option<&Secret> {
        self.parts.password.as_ref()
    }

    /// A name, an IPv4 address, or an IPv6 address in brackets; empty for a database on a local socket.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.parts.host
    }

    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.parts.port
    }

    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.parts.query.as_deref()
    }

    /// Whether the host is this machine by name or number.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.parts.host.trim_start_matches('[').trim_end_matches(']');
        let ip = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        ip || host == "localhost" || host.is_empty() || host.starts_with('/') || host.starts_with("%2F")
    }

    /// The whole address with its password, encoded as the protocol's clients read it.
    #[must_use]
    pub fn expose(&self) -> String {
        let password = self.parts.password.as_ref().map(|password| encode(password.expose()));
        let path = if self.parts.path == "/" { P::BARE_SLASH } else { &self.parts.path };
        self.write(password.as_deref(), path, self.parts.query.as_deref())
    }

    /// The same address for another login.
    #[must_use]
    pub fn with_login(&self, user: Option<&str>, password: Option<&Secret>) -> Self {
        let mut new = self.clone();
        new.parts.user = user.map(str::to_owned).or(new.parts.user);
        new.parts.password = password.cloned().or(new.parts.password);
        new
    }

    /// The path without its first slash, decoded.
    fn path_decoded(&self) -> Option<String> {
        let path = self.parts.path.strip_prefix('/')?;
        Some(percent_decode_str(path).decode_utf8_lossy().into_owned())
    }

    fn write(&self, password: Option<&str>, path: &str, query: Option<&str>) -> String {
        let mut text = format!("{}://", self.parts.scheme);
        if self.parts.user.is_some() || password.is_some() {
            text += &encode(self.parts.user.as_deref().unwrap_or_default());
            text += &password.map_or_else(String::new, |password| format!(":{password}"));
            text.push('@');
        }
        text += &self.parts.host;
        text += &self.parts.port.map_or_else(String::new, |port| format!(":{port}"));
        text += path;
        text += &query.map_or_else(String::new, |query| format!("?{query}"));
        text
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Query values that are no secrets stay; any other is hidden.
fn redacted_query(query: &str) -> String {
    let secret = |name: &str| ["pass", "secret", "token", "key"].iter().any(|word| name.to_lowercase().contains(word));
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !secret(name) && !value.contains('@') => format!("{name}={value}"),
        Some((name, _)) => format!("{name}={REDACTED}"),
        None => REDACTED.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

impl<P: Protocol> Scalar for Address<P> {
    const ALLOWED: &'static str = P::ALLOWED;
    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        parse::parse::<P>(text).map(|parts| Self { parts, protocol: PhantomData })
    }
}

impl<P: Protocol> fmt::Display for Address<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.parts.password.as_ref().map(|_| REDACTED);
        let query = self.parts.query.as_deref().map(redacted_query);
        let path = if P::SECRET_PATH && self.parts.path.len() > 1 { "/***" } else { &self.parts.path };
        f.write_str(&self.write(password, path, if P::SECRET_PATH { None } else { query.as_deref() }))
    }
}

impl<P: Protocol> fmt::Debug for Address<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<P> Clone for Address<P> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), protocol: PhantomData }
    }
}

impl<P> PartialEq for Address<P> {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl<P> Eq for Address<P> {}
