//! What each protocol's addresses look like.

/// The rules for one kind of address.
pub trait Protocol: 'static {
    const SCHEMES: &'static [&'static str];
    const ALLOWED: &'static str;
    /// What the first part of the path is called; `None` where a path may have any number of parts.
    const PATH: Option<&'static str>;
    /// What a path of one slash stands for.
    const BARE_SLASH: &'static str = "/";
    /// Whether a host must be named.
    const NEEDS_HOST: bool = true;
    /// Whether the path is a secret too.
    const SECRET_PATH: bool = false;
}

/// `amqp://user:password@host:5672/vhost`
#[derive(Debug)]
pub enum Amqp {}

impl Protocol for Amqp {
    const SCHEMES: &'static [&'static str] = &["amqp", "amqps"];
    const ALLOWED: &'static str = "an address such as amqp://user:password@host:5672/vhost (amqps:// for TLS)";
    const PATH: Option<&'static str> = Some("virtual host");
    // Clients would take it for a virtual host without a name.
    const BARE_SLASH: &'static str = "/%2F";
}

/// `postgres://user:password@host:5432/database`
#[derive(Debug)]
pub enum Postgres {}

impl Protocol for Postgres {
    const SCHEMES: &'static [&'static str] = &["postgres", "postgresql"];
    const ALLOWED: &'static str = "an address such as postgres://user:password@host:5432/database?sslmode=verify-full";
    const PATH: Option<&'static str> = Some("database name");
    const NEEDS_HOST: bool = false;
}

/// `https://host/path`
#[derive(Debug)]
pub enum Http {}

impl Protocol for Http {
    const SCHEMES: &'static [&'static str] = &["http", "https"];
    const ALLOWED: &'static str = "an address such as https://host:8443";
    const PATH: Option<&'static str> = None;
}

/// `https://host/secret`
#[derive(Debug)]
pub enum Hook {}

impl Protocol for Hook {
    const SCHEMES: &'static [&'static str] = &["http", "https"];
    const ALLOWED: &'static str = "an address such as https://host/path";
    const PATH: Option<&'static str> = None;
    const SECRET_PATH: bool = true;
}
