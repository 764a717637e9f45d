use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{
    address::{AmqpAddress, HttpAddress},
    check::Checks,
    path::Path,
    scalar::Secret,
    tls::Tls,
};

/// A RabbitMQ broker or cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rabbitmq {
    /// Where it is: `amqp://user:password@host:5672/vhost`. Special characters in user, password and virtual host
    /// are percent-encoded; the default virtual host is `/%2F` or no path at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<AmqpAddress>,
    /// Several hosts of one cluster, instead of `url`; tried in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<AmqpAddress>,
    /// The user, where the address names none. Not encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password, where the address has none. Not encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// The virtual host, where the address has no path. Not encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<String>,
    /// The management API, to show how many messages wait and where an exchange leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_url: Option<HttpAddress>,
    /// Where replays are published, with the rights that needs; without it `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_url: Option<AmqpAddress>,
    /// Certificates, for `amqps://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

impl Rabbitmq {
    /// A broker reached by one address.
    #[must_use]
    pub fn at(url: AmqpAddress) -> Self {
        Self {
            url: Some(url),
            urls: Vec::new(),
            username: None,
            password: None,
            vhost: None,
            management_url: None,
            replay_url: None,
            tls: None,
        }
    }

    /// Where to connect, tried in turn, with login and virtual host filled in. Never empty once checked.
    #[must_use]
    pub fn addresses(&self) -> Vec<AmqpAddress> {
        self.url.iter().chain(&self.urls).map(|url| self.complete(url)).collect()
    }

    /// Where to publish replays, tried in turn.
    #[must_use]
    pub fn replay_addresses(&self) -> Vec<AmqpAddress> {
        self.replay_url.as_ref().map_or_else(|| self.addresses(), |url| vec![self.complete(url)])
    }

    /// The virtual host we capture from.
    #[must_use]
    pub fn virtual_host(&self) -> String {
        self.addresses().first().map_or_else(|| "/".to_owned(), AmqpAddress::vhost)
    }

    fn complete(&self, url: &AmqpAddress) -> AmqpAddress {
        // The password belongs to the user beside it, not to another user in an address.
        let url = match url.user() {
            Some(_) if self.username.is_some() => url.clone(),
            _ if url.password().is_some() => url.clone(),
            _ => url.with_login(self.username.as_deref(), self.password.as_ref()),
        };
        match &self.vhost {
            Some(vhost) if !url.has_path() => url.with_vhost(vhost),
            _ => url,
        }
    }

    pub(super) fn check(&self, path: &Path, checks: &mut Checks<'_>) {
        match (&self.url, self.urls.as_slice()) {
            (None, []) => checks.fault(path.clone(), "`url` (or `urls`, for several hosts) is required here"),
            (Some(_), [_, ..]) => checks.fault(path.clone().key("urls"), "`url` is given too; leave one of them out"),
            _ => {}
        }
        if self.vhost.as_deref() == Some("") {
            checks.fault(path.clone().key("vhost"), "the virtual host is empty; the default one is called \"/\"");
        }
        let many = self.urls.iter().enumerate().map(|(n, url)| (path.clone().key("urls").index(n), url));
        let one = self.url.iter().map(|url| (path.clone().key("url"), url));
        let replay = self.replay_url.iter().map(|url| (path.clone().key("replay_url"), url));
        for (path, url) in one.chain(many).chain(replay) {
            self.check_address(path, url, checks);
        }
        let inside = self.addresses();
        if inside.iter().any(|url| url.vhost() != self.virtual_host()) {
            checks.fault(path.clone().key("urls"), "the addresses name different virtual hosts; make a broker of each");
        }
        if self.tls.is_some() && inside.iter().any(|url| !url.is_tls()) {
            checks.fault(path.clone().key("tls"), "`tls` means nothing to amqp://; write amqps:// in the address");
        }
    }

    fn check_address(&self, path: Path, url: &AmqpAddress, checks: &mut Checks<'_>) {
        let complete = self.complete(url);
        let has_certificate = self.tls.as_ref().is_some_and(|tls| tls.cert.is_some());
        match (complete.user(), complete.password()) {
            (Some(_), None) if !has_certificate => {
                checks.fault(path.clone(), "a user without a password; add it to the address, or as `password` beside it");
            }
            (None, Some(_)) => checks.fault(path.clone(), "a password without a user; add it, or `username` beside it"),
            (None, None) if !has_certificate => checks.warn(
                path.clone(),
                "no user is named, so the client logs in as guest, which RabbitMQ allows only from the same machine unless told otherwise",
            ),
            _ => {}
        }
        if self.vhost.is_some() && url.has_path() {
            checks.fault(path.clone(), "the address has a path and `vhost` is given too; leave one of them out");
        } else if url.has_bare_slash() {
            checks.warn(path.clone(), "the path `/` is read as the default virtual host \"/\"; write /%2F to say so");
        }
        if matches!(url.port(), Some(15671 | 15672)) {
            checks.warn(path, "this is the usual port of the management API; AMQP has 5672, with TLS 5671");
        }
    }
}
