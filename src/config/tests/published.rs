//! What we publish about the configuration: its schema and its summary.

use serde_json::{Value as Json, json};

use super::{
    contract::{EXAMPLE, example},
    load, load_with,
};
use crate::config::{schema, yaml};

/// YAML as an editor sees it: plain scalars have types.
fn as_json(text: &str) -> Json {
    fn json(node: &crate::config::tree::Node) -> Json {
        use crate::config::tree::Value;
        match &node.value {
            Value::Absent => Json::Null,
            Value::Scalar(scalar) if scalar.plain => {
                serde_json::from_str(&scalar.text).unwrap_or_else(|_| json!(scalar.text))
            }
            Value::Scalar(scalar) => json!(scalar.text),
            Value::List(items) => items.iter().map(json).collect(),
            Value::Map(entries) => Json::Object(entries.iter().map(|e| (e.key.clone(), json(&e.node))).collect()),
        }
    }
    json(&yaml::parse(text).unwrap())
}

#[test]
fn the_schema_accepts_the_example_and_refuses_what_we_refuse() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = as_json(EXAMPLE);
    if let Err(error) = validator.validate(&good) {
        panic!("{error} at {}", error.instance_path());
    }
    for (path, key, value) in [
        ("", "sourcs", json!([])),
        ("/sources/0", "queue_typ", json!("quorum")),
        ("/sources/0", "queue_type", json!("quorom")),
        ("/capture", "writers", json!(0)),
        ("/capture", "memory", json!("24 bananas")),
        ("/rules/0/match", "servce", json!("x")),
        ("/rules/0", "act", json!("retry")),
        ("/brokers/rabbit/rabbitmq", "uri", json!("amqp://h")),
        ("/http", "insecure_full_access", json!("perhaps")),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(path).unwrap()[key] = value;
        assert!(!validator.is_valid(&bad), "{path}/{key} is accepted");
    }
}

#[test]
fn the_schema_accepts_references_where_a_number_or_a_word_is_expected() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let text = "database: { url: \"${env:A}\", max_connections: \"${env:B}\", migrate: \"${env:C}\" }\n\
                capture: { memory: \"${env:D}MiB\", writers: \"${file:/x}\" }\n\
                http: { auth: \"${env:E}\", listen: \"${env:F}\" }\nlog: { format: \"${env:G}\" }\n\
                brokers: { k: { kafka: { bootstrap_servers: k, properties: { a: 1, b: true, c: x } } } }\n\
                sources: [ { name: s, broker: k, topics: [ \"${env:T}\" ], replay: { target: \"${env:H}\" } } ]\n";
    let errors: Vec<String> =
        validator.iter_errors(&as_json(text)).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn every_key_of_the_schema_is_described() {
    fn walk(schema: &Json, path: &str, missing: &mut Vec<String>) {
        for (name, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
            if property.get("description").is_none() {
                missing.push(format!("{path}.{name}"));
            }
        }
        for (name, section) in schema.get("$defs").and_then(Json::as_object).into_iter().flatten() {
            walk(section, name, missing);
        }
    }
    let mut missing = Vec::new();
    walk(&schema(), "", &mut missing);
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_summary_is_yaml_that_means_the_same() {
    let text = "database: { url: \"postgres://localhost/dlo\", migrate: false }\nbrokers:\n  a: { rabbitmq: { urls: [ \"amqp://rabbit\", \"amqp://rabbit2\" ] } }\n  k: { kafka: { bootstrap_servers: \"k:9092\", properties: { linger.ms: 5 } } }\n\
                sources:\n  - { name: \"1e3\", broker: a, queue: \"no\", prefetch: 5 }\n  - { name: b, broker: k, topics: [ \"^a,b\" ], start: 2026-01-31T08:00:00Z }\n\
                rules: [ { name: \"x: y\", act: FORWARD, match: { header: [ \"a=b\", \"c=d*\" ], attempts: 3 }, to: { queue: q } } ]\n";
    let config = load(text).unwrap();
    assert_eq!(load(&config.summary()).unwrap(), config, "{}", config.summary());
}

#[test]
fn the_summary_tells_what_each_source_guarantees() {
    let summary = example().summary();
    for part in [
        "#   orders: quorum queue \"dlo.orders\", bound to exchange \"dlo\"",
        "survives loss of dlo, database and a broker minority",
        "#   old-dlq: existing queue \"billing.dlq\" at amqp://dlo:***@rabbit:5672/shop",
        "check its delivery limit, TTL, length limit, dead-letter settings",
        "rules: read and checked; not acted on by this version",
    ] {
        assert!(summary.contains(part), "{part}\nis not in\n{summary}");
    }
}

#[test]
fn doubtful_things_are_warned_of() {
    let text = "database: { url: \"postgres://db/dlo\" }\nbrokers: { a: { rabbitmq: { url: \"amqp://rabbit:15672/\" } } }\n\
                sources: [ { name: a, broker: a, queue: q, queue_type: classic } ]\nhttp: { insecure_full_access: true }\n";
    let config = load_with(text, &[]).unwrap();
    let warnings = config.warnings().join("\n");
    for part in [
        "sslmode=verify-full",
        "logs in as guest",
        "the path `/` is read as",
        "port of the management API",
        "queue_type: has no effect",
        "insecure_full_access: has no effect",
    ] {
        assert!(warnings.contains(part), "{part}\nis not in\n{warnings}");
    }
}
