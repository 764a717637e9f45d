//! Finding the configuration, and doing without a file.

use std::{collections::HashMap, path::PathBuf};

use crate::config::{Config, ConfigErrors, LoadOptions, Place, Start};

fn load(file: Option<PathBuf>, usual: Vec<PathBuf>, env: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let env: HashMap<&str, &str> = env.iter().copied().collect();
    let env = |name: &str| env.get(name).map(|value| (*value).to_owned());
    Config::load(&LoadOptions { file, env: &env, usual_files: usual })
}

fn from_env(env: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    load(None, Vec::new(), env)
}

const DATABASE: (&str, &str) = ("DLO_DATABASE_URL", "postgres://localhost/dlo");

#[test]
fn two_variables_are_enough_for_rabbitmq() {
    let config = from_env(&[DATABASE, ("DLO_RABBITMQ_URL", "amqp://u:p@localhost")]).unwrap();
    assert_eq!((config.sources.len(), config.sources[0].name.as_str()), (1, "rabbitmq"));
    assert!(matches!(config.sources[0].place(), Place::Queue { exchange: Some("dlo"), queue: "dlo.dead-letters", .. }));
    assert_eq!(config.file(), None);
    config.require_sources().unwrap();
}

#[test]
fn kafka_needs_brokers_and_topics() {
    let topics = ("DLO_KAFKA_TOPICS", r"orders-dlt, ^retail\..{1,9}\.DLQ$");
    let config = from_env(&[DATABASE, ("DLO_KAFKA_BROKERS", "a:9092,b:9092"), topics]).unwrap();
    let Place::Topics { group, topics: read, start } = config.sources[0].place() else { panic!("a kafka source") };
    assert_eq!((config.sources[0].name.as_str(), group, start), ("kafka", "dlo", Start::Earliest));
    assert_eq!(read.iter().map(|topic| topic.as_str()).collect::<Vec<_>>(), ["orders-dlt", r"^retail\..{1,9}\.DLQ$"]);
    let alone = from_env(&[DATABASE, topics]).unwrap_err().to_string();
    assert_eq!(alone, "DLO_KAFKA_TOPICS: is set, and DLO_KAFKA_BROKERS is not; Kafka needs both");
}

#[test]
fn the_other_variables_do_what_they_say() {
    let config = from_env(&[
        ("DATABASE_URL", "postgres://localhost/other"),
        ("DLO_DATABASE_URL", ""),
        ("DLO_RABBITMQ_URL", "amqp://u:p@localhost"),
        ("DLO_RABBITMQ_EXCHANGE", "failed"),
        ("DLO_RABBITMQ_QUEUE", "failed.all"),
        ("DLO_HTTP_LISTEN", "0.0.0.0:80"),
        ("DLO_METRICS_LISTEN", "0.0.0.0:81"),
        ("DLO_LOG", "info,lapin=debug"),
        ("DLO_PORT_8390_TCP", "tcp://10.0.0.1:8390"),
    ])
    .unwrap();
    assert_eq!(config.database.url.database().as_deref(), Some("other"));
    assert!(matches!(config.sources[0].place(), Place::Queue { exchange: Some("failed"), queue: "failed.all", .. }));
    assert_eq!((config.http.listen.0.port(), config.metrics.listen.0.port()), (80, 81));
    assert_eq!(config.log.level, "info,lapin=debug");
}

#[test]
fn a_fault_in_the_environment_names_the_variable() {
    let faults = from_env(&[
        DATABASE,
        ("DLO_RABBITMQ_URL", "http://localhost:15672"),
        ("DLO_HTTP_LISTEN", "8390"),
        ("DLO_LOG", "loud"),
    ]);
    let faults = faults.unwrap_err().to_string();
    assert!(faults.contains("DLO_RABBITMQ_URL: http:// is not the scheme"), "{faults}");
    assert!(faults.contains("DLO_HTTP_LISTEN: given \"8390\"; allowed: an IP address and a port"), "{faults}");
}

#[test]
fn nothing_usable_shows_the_smallest_that_works() {
    let faults = from_env(&[("DLO_RABBITMQ_URL", "amqp://u:p@localhost")]).unwrap_err().to_string();
    assert!(faults.contains("DLO_DATABASE_URL=postgres://") && faults.contains("DLO_KAFKA_TOPICS="), "{faults}");
    let (_, file) = faults.split_once("The smallest dlo.yaml:\n").unwrap();
    let env = [DATABASE, ("DLO_RABBITMQ_URL", "amqp://u:p@localhost")];
    super::load_with(file, &env).unwrap();
    let none = from_env(&[DATABASE]).unwrap().require_sources().unwrap_err().to_string();
    assert!(none.contains("set DLO_RABBITMQ_URL"), "{none}");
}

#[test]
fn the_first_file_found_counts_and_the_environment_does_not_override_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, port: u16| {
        let file = folder.path().join(name);
        let text = format!("database: {{ url: \"postgres://localhost\" }}\nhttp: {{ listen: \"127.0.0.1:{port}\" }}\n");
        std::fs::write(&file, text).unwrap();
        file
    };
    let (named, by_env, usual) = (write("named.yaml", 1), write("env.yaml", 2), write("dlo.yaml", 3));
    let env = [("DLO_CONFIG", by_env.to_str().unwrap()), ("DLO_HTTP_LISTEN", "127.0.0.1:9"), DATABASE];
    let port = |config: Config| config.http.listen.0.port();
    assert_eq!(port(load(Some(named), vec![usual.clone()], &env).unwrap()), 1);
    assert_eq!(port(load(None, vec![usual.clone()], &env).unwrap()), 2);
    let missing = folder.path().join("missing.yaml");
    assert_eq!(port(load(None, vec![missing.clone(), usual], &env[1..]).unwrap()), 3);
    let fault = load(Some(missing), Vec::new(), &env).unwrap_err().to_string();
    assert!(fault.ends_with("missing.yaml: cannot be read: there is no such file"), "{fault}");
}

#[test]
fn a_file_that_is_no_text_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dlo.yaml");
    std::fs::write(&file, b"database:\n  url: \xff").unwrap();
    let fault = load(Some(file), Vec::new(), &[]).unwrap_err().to_string();
    assert!(fault.ends_with("dlo.yaml:2:8: is not UTF-8 text from here on"), "{fault}");
}
