use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    address::PostgresAddress,
    check::Checks,
    scalar::{Count, Secret},
    tls::Tls,
};

/// The PostgreSQL database that keeps the dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Where it is: `postgres://user:password@host:5432/database`. Special characters in user and password are
    /// percent-encoded. TLS as with any PostgreSQL client: `?sslmode=verify-full`.
    pub url: PostgresAddress,
    /// A replica that serves lists and statistics; without it `url` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_url: Option<PostgresAddress>,
    /// The user, where `url` names none. Not encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password, where `url` has none. Not encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// The most connections one process opens.
    #[serde(default = "max_connections")]
    pub max_connections: Count<2, 1000>,
    /// Whether `dlo run` brings the schema up to date. Without it, `dlo migrate` does.
    #[serde(default = "super::yes")]
    pub migrate: bool,
    /// Certificates, where `url` does not name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

fn max_connections() -> Count<2, 1000> {
    const { Count::new(8) }
}

impl Database {
    /// Where to connect, with the login of `username` and `password`.
    #[must_use]
    pub fn address(&self) -> PostgresAddress {
        self.url.with_login(self.username.as_deref(), self.password.as_ref())
    }

    /// Where to connect for lists and statistics.
    #[must_use]
    pub fn read_address(&self) -> PostgresAddress {
        let url = self.read_url.as_ref().unwrap_or(&self.url);
        url.with_login(self.username.as_deref(), self.password.as_ref())
    }

    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        if self.username.is_some() && self.url.user().is_some() {
            checks.fault("database.username", "`url` names a user too; leave one of them out");
        }
        if self.password.is_some() && self.url.password().is_some() {
            checks.fault("database.password", "`url` has a password too; leave one of them out");
        }
        for (key, url) in [("database.url", Some(&self.url)), ("database.read_url", self.read_url.as_ref())] {
            let may_be_plain = url.is_some_and(|url| !url.is_loopback() && !url.query().is_some_and(asks_for_tls));
            if may_be_plain && self.tls.is_none() {
                let message = "TLS is used only if the server offers it; add ?sslmode=verify-full to insist on it (or ?sslmode=disable to say that plain text is meant)";
                checks.warn(key, message);
            }
        }
        if let Some(tls) = &self.tls {
            tls.check("database.tls".into(), checks);
        }
    }
}

fn asks_for_tls(query: &str) -> bool {
    query.split('&').any(|pair| {
        matches!(pair.split_once('='), Some(("sslmode" | "ssl-mode", mode)) if mode != "prefer" && mode != "allow")
    })
}
