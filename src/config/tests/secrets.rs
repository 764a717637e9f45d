//! No password in any output (SE01), and no password that changes its meaning on the way (CR21).

use super::{load, load_with};
use crate::config::Broker;

/// Raw, decoded and encoded once more.
const FORMS: [&str; 3] = ["S3cr3t%40x", "S3cr3t@x", "S3cr3t%2540x"];

#[track_caller]
fn assert_silent(output: &str) {
    assert!(!output.contains("S3cr3t"), "a secret is shown: {output}");
}

#[test]
fn no_output_of_a_good_configuration_shows_a_secret() {
    for password in FORMS.map(|form| form.replace('@', "%40")) {
        let text = format!(
            r#"
database: {{ url: "postgres://dlo:{password}@db/dlo?sslpassword={password}&sslmode=require", read_url: "postgres://r:{password}@db2/dlo" }}
brokers:
  rabbit: {{ rabbitmq: {{ url: "amqp://dlo:{password}@rabbit/v", replay_url: "amqp://r:{password}@rabbit/v", management_url: "http://m:{password}@rabbit:15672" }} }}
  split: {{ rabbitmq: {{ url: "amqp://rabbit", username: dlo, password: "{password}" }} }}
  kafka: {{ kafka: {{ bootstrap_servers: "k:9092", properties: {{ sasl.password: "{password}", sasl.oauthbearer.config: "{password}" }} }} }}
sources: [ {{ name: a, broker: rabbit, queue: q }}, {{ name: b, broker: split, queue: q }}, {{ name: c, broker: kafka, topics: [ t ] }} ]
alerts: [ {{ name: a, type: slack, url: "https://hooks.example.org/{password}?t={password}" }}, {{ name: b, type: pagerduty, key: "{password}" }} ]
"#
        );
        let config = load(&text).unwrap();
        assert_silent(&config.summary());
        assert_silent(&format!("{config:?} {config:#?}"));
        assert_silent(&serde_json::to_string(&config).unwrap());
        assert_silent(&config.warnings().join("\n"));
        let Broker::Rabbitmq(rabbit) = &config.brokers["rabbit"] else { panic!("a rabbitmq broker") };
        assert_silent(&format!("{} {:?}", rabbit.addresses()[0], rabbit.addresses()[0].password()));
        assert!(rabbit.addresses()[0].expose().contains("S3cr3t"));
        assert!(config.summary().contains("url: \"amqp://dlo:***@rabbit/v\""), "{}", config.summary());
    }
}

#[test]
fn no_error_shows_a_secret_wherever_it_was_put() {
    let places = [
        "database: \"SECRET\"",
        "database: { url: \"SECRET\" }",
        "database: { url: SECRET }",
        "database: { url: \"postgres:/dlo:SECRET@db\" }",
        "database: { url: \"mysql://dlo:SECRET@db\" }",
        "database: { url: \"postgres://dlo:SECRET\" }",
        "database: { url: \"postgres://dlo:SECRET@db:x/y\" }",
        "database: { url: \"postgres://dlo:SECRET/x@db\" }",
        "database: { url: \"postgres://dlo:SECRET#x@db\" }",
        "database: { url: \"postgres://dlo:SECRET%@db\" }",
        "database: { url: \"postgres://db/a/SECRET\" }",
        "database: { url: [ \"postgres://dlo:SECRET@db\" ] }",
        "database: { url: { \"postgres://dlo:SECRET@db\": 1 } }",
        "database: { \"postgres://dlo:SECRET@db\": 1 }",
        "\"amqp://dlo:SECRET@rabbit\": 1",
        "database: { url: \"pa${SECRET}\" }",
        "database: { url: \"${env:PASSWORD}\" }",
        "database: { max_connections: \"${env:PASSWORD}\" }",
        "database: { url: \"postgres://db\", password: [ SECRET ] }",
        "database: { url: \"postgres://db\" }\nbrokers: { r: \"amqp://dlo:SECRET@rabbit\" }",
        "database: { url: \"postgres://db\" }\nbrokers: { r: { rabbitmq: \"amqp://dlo:SECRET@rabbit\" } }",
        "database: { url: \"postgres://db\" }\nbrokers: { r: { rabbitmq: { urls: \"amqp://dlo:SECRET@rabbit\" } } }",
        "database: { url: \"postgres://db\" }\nbrokers: { r: { kafka: { bootstrap_servers: \"kafka://dlo:SECRET@k\" } } }",
        "database: { url: \"postgres://db\" }\nhttp: { external_url: \"ftp://dlo:SECRET@h\" }",
        "database: { url: \"postgres://db\" }\nhttp: { listen: \"amqp://dlo:SECRET@h\" }",
        "database: { url: \"postgres://db\" }\nsources: [ { name: a, broker: \"amqp://dlo:SECRET@h\", queue: q } ]",
        "database: { url: \"postgres://db\" }\nsources: [ { name: \"amqp://dlo:SECRET@h\", broker: b, queue: q } ]",
        "database: { url: \"postgres://db\" }\nlog: { level: \"amqp://dlo:SECRET@h\" }",
        "database: { url: *SECRET }",
        "database: { url: !SECRET }",
        "database: { url: \"postgres://dlo:SECRET@db }",
        "database: { url: %SECRET }",
        "database: { url: @SECRET }",
        "%SECRET",
    ];
    for place in places {
        for form in FORMS {
            let text = place.replace("SECRET", form);
            match load_with(&text, &[("PASSWORD", form)]) {
                Ok(config) => assert_silent(&format!("{config:?} {}", config.summary())),
                Err(errors) => assert_silent(&format!("{errors} {errors:?}")),
            }
        }
    }
}

#[test]
fn a_password_that_is_not_encoded_is_told_with_its_codes() {
    for (password, codes) in [
        ("p@ss", "%40 for `@`"),
        ("p/ss", "%2F for `/`"),
        ("p?ss", "%3F for `?`"),
        ("p#ss", "%23 for `#`"),
        ("p%ss", "%25 for `%`"),
        ("100%", "%25 for `%`"),
        ("p@ss:w/rd%#?", "%2F for `/`, %3F for `?`, %23 for `#`, %40 for `@`, %25 for `%`"),
    ] {
        for (key, scheme, path) in [("database", "postgres", "/dlo"), ("rabbit", "amqp", "/v")] {
            let url = format!("{scheme}://dlo:{password}@localhost:1234{path}");
            let text = match key {
                "database" => format!("database: {{ url: '{url}' }}"),
                _ => {
                    format!("database: {{ url: 'postgres://h' }}\nbrokers: {{ r: {{ rabbitmq: {{ url: '{url}' }} }} }}")
                }
            };
            let faults = load(&text).unwrap_err().to_string();
            assert!(
                faults.ends_with(&format!("the password must be percent-encoded: write {codes}")),
                "{url}: {faults}"
            );
        }
    }
}
