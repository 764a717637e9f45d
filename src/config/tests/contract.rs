use std::time::Duration;

use super::load_with;
use crate::config::{
    Act, AlertKind, AlertOn, Auth, Broker, Classifier, Config, InDoubt, LogFormat, Place, QueueType, Rate,
    ReplayTarget, Start,
};

/// The example of the contract page, as users copy it.
pub(super) const EXAMPLE: &str = r#"
database: { url: "${env:DLO_DATABASE_URL}", max_connections: 8, migrate: true }     # read_url: for lists, optional
brokers:
  rabbit:
    rabbitmq: { url: "${file:AMQP_FILE}", management_url: "http://rabbit:15672", replay_url: "amqp://replay:pw@rabbit" }
  kafka:
    kafka: { bootstrap_servers: "10.0.0.1:9092", properties: { security.protocol: sasl_ssl }, replay_properties: {} }
sources:
  - { name: orders, broker: rabbit, exchange: dlo, queue: dlo.orders, queue_type: quorum, service: orders }
                                       # with `exchange`: both ours, declared
  - { name: old-dlq, broker: rabbit, queue: billing.dlq }                # without `exchange`: an existing queue
  - { name: payments, broker: kafka, group: dlo, topics: ["payments-dlt", "^retail\\..*\\.DLQ$"], start: earliest, replay: { target: original } }
owners: [ { team: shop, services: ["orders", "billing*"] } ]            # first match wins; fills column `team`
capture: { memory: 24MiB, batch_rows: 1000, batch_bytes: 1MiB, writers: 2 }        # MiB and Mi alike
replay: { concurrency: 4, lease: 60s, verdict_window: 10m, rate: 100/s, in_doubt: hold, sql_release_above: 100 }
rules:                                 # first match wins; what none matches is held
  - { name: timeouts, match: { service: billing, error_class: "*Timeout*", attempts: "<10" }, act: RETRY, backoff: [1m, 5m, 1h], max_attempts: 5, jitter: 10% }
routes: [ { service: billing, event_type: "invoice.*", to: { broker: rabbit, exchange: billing, routing_key: "{event_type}" } } ]
alerts: [ { name: oncall, type: pagerduty, key: "${env:PD_KEY}", on: [dead, new_group, regression, spike], team: shop } ]
http: { listen: "127.0.0.1:8390", auth: token, external_url: "https://dlo.example.org" }
metrics: { listen: "127.0.0.1:9390" }
log: { format: text, level: info }     # text | json
retention: { closed: 90d }             # open letters stay
shutdown: { deadline: 20s }
"#;

pub(super) fn example() -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("amqp");
    std::fs::write(&file, "amqp://dlo:p%40ss@rabbit:5672/shop\n").unwrap();
    let text = EXAMPLE.replace("AMQP_FILE", file.to_str().unwrap());
    load_with(&text, &[("DLO_DATABASE_URL", "postgres://dlo:secret@localhost/dlo"), ("PD_KEY", "k3y")]).unwrap()
}

#[test]
fn the_example_of_the_contract_means_what_it_says() {
    let config = example();
    assert_eq!(config.database.address().expose(), "postgres://dlo:secret@localhost/dlo");
    assert_eq!((config.database.max_connections.get(), config.database.migrate), (8, true));
    let Broker::Rabbitmq(rabbit) = &config.brokers["rabbit"] else { panic!("rabbit is a rabbitmq broker") };
    let address = &rabbit.addresses()[0];
    assert_eq!((address.user(), address.password().unwrap().expose()), (Some("dlo"), "p@ss"));
    assert_eq!((address.host(), address.port(), address.vhost().as_str()), ("rabbit", Some(5672), "shop"));
    assert_eq!(rabbit.replay_addresses()[0].user(), Some("replay"));
    let Broker::Kafka(kafka) = &config.brokers["kafka"] else { panic!("kafka is a kafka broker") };
    assert_eq!(kafka.properties.iter().collect::<Vec<_>>(), [("security.protocol", "sasl_ssl")]);
    assert_eq!(
        config.sources[0].place(),
        Place::Queue { exchange: Some("dlo"), queue: "dlo.orders", queue_type: QueueType::Quorum, prefetch: None }
    );
    assert!(matches!(config.sources[1].place(), Place::Queue { exchange: None, queue: "billing.dlq", .. }));
    let Place::Topics { group: "dlo", topics, start: Start::Earliest } = config.sources[2].place() else {
        panic!("payments has topics")
    };
    assert_eq!(topics[1].as_str(), r"^retail\..*\.DLQ$");
    assert_eq!(config.sources[2].replay.target, ReplayTarget::Original);
    assert_eq!(config.sources[0].classifier, Classifier::Place);
    assert!(config.owners[0].owns("billing-eu") && !config.owners[0].owns("orders-eu"));
    assert_eq!(config.capture.memory.bytes(), 24 << 20);
    assert_eq!((config.replay.lease.get(), config.replay.rate), (Duration::from_secs(60), Rate::per_second(100)));
    assert_eq!(config.replay.in_doubt, InDoubt::Hold);
    let rule = &config.rules[0];
    let retry = rule.retry().unwrap();
    assert_eq!((rule.act, retry.max_attempts, retry.jitter.fraction()), (Act::Retry, 5, 0.1));
    assert_eq!(retry.backoff.iter().map(|wait| wait.get().as_secs()).collect::<Vec<_>>(), [60, 300, 3600]);
    assert!(rule.matches.attempts.unwrap().holds(9) && !rule.matches.attempts.unwrap().holds(10));
    assert!(rule.matches.error_class.as_ref().unwrap().matches("ReadTimeoutError"));
    assert_eq!(config.routes[0].to.exchange.as_deref(), Some("billing"));
    assert_eq!((config.alerts[0].kind, config.alerts[0].on.len()), (AlertKind::Pagerduty, 4));
    assert!(config.alerts[0].on.contains(&AlertOn::NewGroup));
    assert_eq!(config.alerts[0].key.as_ref().unwrap().expose(), "k3y");
    assert_eq!((config.http.auth, config.http.listen.0.port()), (Auth::Token, 8390));
    assert_eq!((config.log.format, config.log.level.as_str()), (LogFormat::Text, "info"));
    assert_eq!(config.retention.closed.get(), Duration::from_secs(90 * 86_400));
    assert_eq!(config.shutdown.deadline.get(), Duration::from_secs(20));
}

#[test]
fn what_the_example_spells_out_are_the_defaults() {
    let full = example();
    let small = super::load("database: { url: \"postgres://localhost\" }").unwrap();
    assert_eq!((small.capture, small.replay), (full.capture, full.replay));
    assert_eq!((small.metrics, small.retention, small.shutdown), (full.metrics, full.retention, full.shutdown));
    assert_eq!((&small.log, small.http.listen), (&full.log, full.http.listen));
}
