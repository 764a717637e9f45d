//! Virtual hosts and passwords reach the client as they were meant (CR21).

use lapin::uri::AMQPUri;
use sqlx::postgres::PgConnectOptions;

use super::load;
use crate::config::{Broker, Rabbitmq};

fn rabbit(settings: &str) -> Result<Rabbitmq, String> {
    let text = format!("database: {{ url: \"postgres://localhost\" }}\nbrokers: {{ r: {{ rabbitmq: {settings} }} }}");
    match load(&text).map_err(|errors| errors.to_string())?.brokers.remove("r") {
        Some(Broker::Rabbitmq(broker)) => Ok(broker),
        other => panic!("{other:?} is no rabbitmq broker"),
    }
}

/// User, password and virtual host as the client library reads them.
fn as_lapin_reads(broker: &Rabbitmq) -> (String, String, String) {
    let uri: AMQPUri = broker.addresses()[0].expose().parse().unwrap();
    (uri.authority.userinfo.username, uri.authority.userinfo.password, uri.vhost)
}

#[test]
fn special_passwords_and_virtual_hosts_reach_the_client_encoded_or_apart() {
    for password in ["p@ss:w/rd%#?", "100%25", "пароль", "S3cr3t%40x", "a b\\\"'+&="] {
        for vhost in ["/", "a/b", "ä ö", "v@1:2#?"] {
            let encode = |text: &str| {
                percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
            };
            let url = format!("amqp://d%6Co:{}@localhost:5672/{}", encode(password), encode(vhost));
            let json = serde_json::json!({ "url": url });
            let apart = serde_json::json!({ "url": "amqp://localhost:5672", "username": "dlo", "password": password, "vhost": vhost });
            for settings in [json, apart] {
                let broker = rabbit(&settings.to_string()).unwrap();
                let expected = ("dlo".to_owned(), password.to_owned(), vhost.to_owned());
                assert_eq!(as_lapin_reads(&broker), expected, "{settings}");
                assert_eq!(broker.virtual_host(), vhost);
            }
        }
    }
}

#[test]
fn every_way_to_write_the_default_virtual_host_is_the_default_virtual_host() {
    for path in ["", "/", "//", "/%2F", "/%2f"] {
        let broker = rabbit(&format!("{{ url: \"amqp://u:p@localhost{path}\" }}")).unwrap();
        assert_eq!(broker.virtual_host(), "/", "{path}");
        assert_eq!(as_lapin_reads(&broker).2, "/", "{path}");
    }
}

#[test]
fn a_part_that_is_wrong_is_named() {
    for (settings, expected) in [
        ("{ url: \"amqp://u:p@h/a/b\" }", "the virtual host holds a `/`: write %2F"),
        ("{ url: \"amqp://u:p@h/100%\" }", "the virtual host must be percent-encoded: write %25 for `%`"),
        ("{ url: \"amqp://u:p@h/%FF\" }", "the virtual host is not UTF-8 once its %-codes are decoded"),
        ("{ url: \"amqp://u:p@h/a@b\" }", "or write %40 for an `@` in the virtual host"),
        ("{ url: \"amqp://u:p@h/a#b\" }", "the address holds a `#`"),
        ("{ url: \"amqp://u@x:p@h\" }", "the user name must be percent-encoded: write %40 for `@`"),
        ("{ url: \"amqp://u:@h\" }", "a user without a password"),
        ("{ url: \"amqp://:p@h\" }", "a password without a user"),
        ("{ url: \"amqp://u:p@\" }", "the address names no host"),
        ("{ url: \"amqp://u:p@h h\" }", "white space"),
        ("{ url: \"amqp://u:p@h:0\" }", "the port is not a number from 1 to 65535"),
        ("{ url: \"amqp://u:p@h:amqp\" }", "the port is not a number from 1 to 65535"),
        ("{ url: \"amqp://u:p@::1\" }", "an IPv6 address stands in brackets"),
        ("{ url: \"amqp://u:p@h,i\" }", "the address names several hosts"),
        ("{ url: \"amqp:u:p@h\" }", "the address has no scheme"),
        ("{ url: \"amqp://h\", vhost: \"\" }", "the virtual host is empty"),
        ("{ url: \"amqp://h/x\", vhost: \"y\" }", "leave one of them out"),
        ("{ url: \"\" }", "the address is empty"),
    ] {
        let faults = rabbit(settings).unwrap_err();
        assert!(faults.contains(expected), "{settings}: {faults}");
    }
}

#[test]
fn hosts_of_every_kind_are_read() {
    for (host, port) in
        [("localhost", None), ("10.0.0.1", Some(5672)), ("[::1]", Some(1)), ("rabbit.example.org", Some(65_535))]
    {
        let written = port.map_or_else(|| host.to_owned(), |port: u16| format!("{host}:{port}"));
        let broker = rabbit(&format!("{{ url: \"AMQPS://u:p@{written}/v?heartbeat=5\" }}")).unwrap();
        let address = &broker.addresses()[0];
        assert_eq!((address.host(), address.port(), address.query()), (host, port, Some("heartbeat=5")));
        assert!(address.is_tls());
    }
}

#[test]
fn a_database_is_reached_as_written() {
    for (settings, host, database) in [
        ("{ url: \"postgres://dlo:p%40ss@db:5433/dead%2Fletters?sslmode=disable\" }", "db", "dead/letters"),
        ("{ url: \"postgresql://db:5433/dlo\", username: dlo, password: \"p@ss:w/rd%#?\" }", "db", "dlo"),
    ] {
        let config = load(&format!("database: {settings}")).unwrap();
        let options: PgConnectOptions = config.database.address().expose().parse().unwrap();
        assert_eq!((options.get_username(), options.get_host(), options.get_port()), ("dlo", host, 5433));
        assert_eq!(options.get_database(), Some(database));
    }
    for url in [
        "postgres:///dlo?host=/var/run/postgresql",
        "postgres://dlo@%2Fvar%2Frun%2Fpostgresql/dlo",
        "postgres://u:p@h?user=a@b",
    ] {
        load(&format!("database: {{ url: \"{url}\" }}")).unwrap();
    }
}
