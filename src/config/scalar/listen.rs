use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use super::{Scalar, scalar_text};

/// An address to listen on: an IP address or `localhost`, and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Listen {
    #[must_use]
    pub const fn loopback(port: u16) -> Self {
        Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }

    /// Whether both cannot be open at once. Port 0 is a free port each time.
    #[must_use]
    pub fn collides(self, other: Self) -> bool {
        let (a, b) = (self.0.ip().to_canonical(), other.0.ip().to_canonical());
        let same_address = a == b || a.is_unspecified() || b.is_unspecified();
        self.0.port() == other.0.port() && self.0.port() != 0 && same_address
    }
}

impl Scalar for Listen {
    const ALLOWED: &'static str = "an IP address and a port, such as 127.0.0.1:8390, 0.0.0.0:8390 or \"[::1]:8390\"";

    fn parse(text: &str) -> Result<Self, String> {
        let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        numeric.as_deref().unwrap_or(text).parse().map(Self).map_err(|_| String::new())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

scalar_text!(Listen, "Listen", { "type": "string", "examples": ["127.0.0.1:8390", "[::1]:8390"] });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_collide_where_the_system_would_refuse() {
        let listen = |text| Listen::parse(text).unwrap();
        assert!(listen("0.0.0.0:80").collides(listen("127.0.0.1:80")));
        assert!(!listen("127.0.0.2:80").collides(listen("127.0.0.1:80")));
        assert!(!listen("127.0.0.1:0").collides(listen("127.0.0.1:0")));
        assert!(listen("localhost:80").is_loopback() && listen("[::1]:80").is_loopback());
        assert!(!listen("0.0.0.0:80").is_loopback() && !listen("[::]:80").is_loopback());
        for text in ["", "8390", ":8390", "127.0.0.1", "127.0.0.1:70000", "example.org:80"] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
    }
}
