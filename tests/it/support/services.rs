//! Where the services are: what `dev/services env` prints, else its defaults.

fn env(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

pub(crate) fn database_url() -> String {
    env("DLO_TEST_DATABASE_URL", "postgres://dlo:dlo@127.0.0.1:23432/dlo")
}

/// PostgreSQL built without lz4.
pub(crate) fn postgres18_url() -> String {
    env("DLO_TEST_POSTGRES18_URL", "postgres://dlo:dlo@127.0.0.1:23418/dlo")
}

/// A broker: its AMQP address, and that of its management API with user and password.
#[derive(Clone, Debug)]
pub(crate) struct BrokerUrls {
    pub(crate) amqp: String,
    pub(crate) management: String,
}

pub(crate) fn rabbitmq() -> BrokerUrls {
    BrokerUrls {
        amqp: env("DLO_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:23672/%2f"),
        management: env("DLO_TEST_RABBITMQ_MANAGEMENT_URL", "http://guest:guest@127.0.0.1:23673"),
    }
}

pub(crate) fn kafka() -> String {
    env("DLO_TEST_KAFKA_BROKERS", "127.0.0.1:23092")
}

/// With a login: users `dlo`, who may do everything, `reader`, and `guest`, who may nothing.
pub(crate) fn kafka_sasl() -> String {
    env("DLO_TEST_KAFKA_SASL_BROKERS", "127.0.0.1:23094")
}

/// Three nodes, where they are up (`dev/services up kafka3`).
pub(crate) fn kafka3() -> Option<String> {
    let brokers = env("DLO_TEST_KAFKA3_BROKERS", "127.0.0.1:23061,127.0.0.1:23063,127.0.0.1:23065");
    brokers.split(',').all(|broker| std::net::TcpStream::connect(broker).is_ok()).then_some(brokers)
}

/// Over TLS, with the file of the authority that signed the broker's certificate.
pub(crate) fn kafka_tls() -> (Option<String>, Option<String>) {
    (std::env::var("DLO_TEST_KAFKA_SSL_BROKERS").ok(), std::env::var("DLO_TEST_KAFKA_CA").ok())
}

pub(crate) fn rabbitmq4() -> BrokerUrls {
    BrokerUrls {
        amqp: env("DLO_TEST_RABBITMQ4_URL", "amqp://guest:guest@127.0.0.1:24672/%2f"),
        management: env("DLO_TEST_RABBITMQ4_MANAGEMENT_URL", "http://guest:guest@127.0.0.1:24673"),
    }
}
