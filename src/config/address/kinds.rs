//! The addresses of each protocol, and what only they have.

use super::{Address, Amqp, Hook, Http, Postgres, encode};
use crate::config::scalar::scalar_text;

pub type AmqpAddress = Address<Amqp>;
pub type PostgresAddress = Address<Postgres>;
pub type HttpAddress = Address<Http>;
/// An address that is a secret as a whole, as those of chat services are.
pub type HookAddress = Address<Hook>;

impl AmqpAddress {
    /// Decoded; `/` where the address has no path.
    #[must_use]
    pub fn vhost(&self) -> String {
        self.path_decoded().filter(|vhost| !vhost.is_empty()).unwrap_or_else(|| "/".to_owned())
    }

    /// The same address for another virtual host.
    #[must_use]
    pub fn with_vhost(&self, vhost: &str) -> Self {
        let mut new = self.clone();
        new.parts.path = format!("/{}", encode(vhost));
        new
    }

    /// Ends in a bare `/`, which clients read in different ways.
    pub(in crate::config) fn has_bare_slash(&self) -> bool {
        self.parts.path == "/"
    }

    pub(in crate::config) fn has_path(&self) -> bool {
        !self.parts.path.is_empty()
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.parts.scheme == "amqps"
    }
}

impl PostgresAddress {
    /// The database named, if one is.
    #[must_use]
    pub fn database(&self) -> Option<String> {
        self.path_decoded().filter(|name| !name.is_empty())
    }
}

scalar_text!(AmqpAddress, "AmqpAddress", {
    "type": "string", "examples": ["amqp://user:password@rabbit:5672", "amqps://user:password@rabbit/vhost"]
});
scalar_text!(PostgresAddress, "PostgresAddress", {
    "type": "string", "examples": ["postgres://user:password@db:5432/dlo?sslmode=verify-full"]
});
scalar_text!(HttpAddress, "HttpAddress", { "type": "string", "examples": ["https://rabbit:15671"] });
scalar_text!(HookAddress, "HookAddress", { "type": "string", "examples": ["https://hooks.example.org/…"] });
