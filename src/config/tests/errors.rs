//! What people read when something is wrong: file, line, key, what was given, what is allowed.

use super::{faults, load};

/// A file that is right, with one section put in behind it.
fn with(section: &str) -> String {
    format!(
        "database: {{ url: \"postgres://localhost/dlo\" }}\n\
         brokers:\n  rabbit: {{ rabbitmq: {{ url: \"amqp://u:p@localhost\" }} }}\n  kafka: {{ kafka: {{ bootstrap_servers: \"k:9092\" }} }}\n\
         {section}\n"
    )
}

/// The faults of `with(section)`, whose first line is line 5 of the file.
fn of(section: &str) -> String {
    faults(&with(section))
}

#[track_caller]
fn assert_fault(section: &str, expected: &str) {
    let faults = of(section);
    assert!(faults.lines().any(|line| line == expected), "\n{expected}\nis not among\n{faults}");
}

#[test]
fn the_frame_of_these_tests_is_right() {
    load(&with("sources: [ { name: a, broker: rabbit, queue: q } ]")).unwrap();
}

#[test]
fn an_unknown_key_is_told_with_the_one_that_was_meant() {
    assert_fault(
        "sources:\n  - { name: a, broker: rabbit, queue: q, queue_typ: quorum }",
        "dlo.yaml:6:42: sources[0].queue_typ: unknown key; did you mean \"queue_type\"?",
    );
    assert_fault("source: []", "dlo.yaml:5:1: source: unknown key; did you mean \"sources\"?");
    assert_fault("shutdown:\n  wait: 20s", "dlo.yaml:6:3: shutdown.wait: unknown key; allowed: deadline");
    assert_fault(
        "rules: [ { name: a, act: HOLD, match: { servce: x } } ]",
        "dlo.yaml:5:41: rules[0].match.servce: unknown key; did you mean \"service\"?",
    );
}

#[test]
fn an_empty_file_is_told_what_it_needs() {
    for text in ["", "# nothing yet\n", "---\n", "~"] {
        let expected = "dlo.yaml: `database` is required, as in: database: { url: \"${env:DLO_DATABASE_URL}\" }";
        assert_eq!(faults(text), expected);
    }
}

#[test]
fn a_misspelt_key_that_is_required_is_told_once() {
    let text = of("sources: [ { nam: a, broker: rabbit, queue: q } ]");
    assert_eq!(text, "dlo.yaml:5:14: sources[0].nam: unknown key; did you mean \"name\"?");
}

#[test]
fn a_wrong_value_is_told_with_what_was_given_and_what_is_allowed() {
    assert_fault(
        "capture:\n  memory: 24 bananas",
        "dlo.yaml:6:3: capture.memory: given \"24 bananas\"; allowed: a size larger than zero, such as 24MiB, 24Mi, 512KiB or a number of bytes",
    );
    assert_fault(
        "http: { auth: tokn }",
        "dlo.yaml:5:9: http.auth: given \"tokn\"; allowed: token, proxy, none; did you mean \"token\"?",
    );
    assert_fault(
        "rules: [ { name: a, act: retry } ]",
        "dlo.yaml:5:21: rules[0].act: given \"retry\"; allowed: RETRY, HOLD, DISCARD, FORWARD, TAG; did you mean \"RETRY\"?",
    );
    assert_fault(
        "replay: { lease: 0s }",
        "dlo.yaml:5:11: replay.lease: given \"0s\"; allowed: a duration longer than zero, such as 30s, 10m, \"1h 30m\" or 90d",
    );
    assert_fault("capture: [ 1 ]", "dlo.yaml:5:1: capture: given a list; allowed: a section of keys and values");
    assert_fault("sources: { a: b }", "dlo.yaml:5:1: sources: given a section; allowed: a list");
    assert_fault("log: { format: }", "dlo.yaml:5:8: log.format: given nothing; allowed: text, json");
    assert_fault("database: { url: x }\ncapture: { writers: two }", "dlo.yaml:5:1: database: this key is given twice");
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    for prefetch in ["0", "-1", "70000", "1.5"] {
        assert_fault(
            &format!("sources: [ {{ name: a, broker: rabbit, queue: q, prefetch: {prefetch} }} ]"),
            &format!(
                "dlo.yaml:5:49: sources[0].prefetch: given \"{prefetch}\"; allowed: a whole number from 1 to 65535"
            ),
        );
    }
    for prefetch in [1, 65_535] {
        load(&with(&format!("sources: [ {{ name: a, broker: rabbit, queue: q, prefetch: {prefetch} }} ]"))).unwrap();
    }
    assert_fault(
        "capture: { batch_rows: 0 }",
        "dlo.yaml:5:12: capture.batch_rows: given \"0\"; allowed: a whole number from 1 to 100000",
    );
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    let text = of("sources:\n  - { name: a, broker: rabbit, queue: q, kueue: x }\n  - { broker: rabbit, queue: q }\n\
                   capture: { memory: much, writer: 2 }\nlog: { level: [ info ] }");
    let lines: Vec<&str> = text.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["dlo.yaml:6:42", "dlo.yaml:7:5", "dlo.yaml:8:12", "dlo.yaml:8:26", "dlo.yaml:9:8"], "{text}");
    assert!(text.contains("sources[1]: `name` is required here"), "{text}");
}

#[test]
fn keys_are_checked_against_each_other_all_at_once() {
    let text = of(
        "sources:\n  - { name: a, broker: rabit, queue: q }\n  - { name: a, broker: rabbit, topics: [ t ] }\n\
                   \x20 - { name: Großes, broker: kafka, queue: q }\n  - { name: b, broker: rabbit, exchange: amq.topic, queue: amq.q }\n\
                   http: { listen: \"0.0.0.0:9390\", auth: none }",
    );
    let expected = [
        "dlo.yaml:6:16: sources[0].broker: no broker is called \"rabit\"; did you mean \"rabbit\"?",
        "dlo.yaml:7:5: sources[1]: `queue` is required for a source of a rabbitmq broker",
        "dlo.yaml:7:7: sources[1].name: the name \"a\" is taken by another one above",
        "dlo.yaml:7:32: sources[1].topics: this key is for kafka brokers, and \"rabbit\" is a rabbitmq broker",
        "dlo.yaml:8:5: sources[2]: `topics` is required for a source of a kafka broker",
        "dlo.yaml:8:7: sources[2].name: given \"Großes\"; allowed: 1 to 64 of a-z, 0-9, `_`, `.` and `-`",
        "dlo.yaml:8:36: sources[2].queue: this key is for rabbitmq brokers, and \"kafka\" is a kafka broker",
        "dlo.yaml:9:53: sources[3].queue: names that begin with `amq.` are the broker's own; choose another",
        "dlo.yaml:9:32: sources[3].exchange: names that begin with `amq.` are the broker's own; choose another",
        "dlo.yaml:10:33: http.auth: `none` is allowed only on loopback, and http.listen is 0.0.0.0:9390; allowed: token, proxy, or listen: 127.0.0.1:9390",
        "dlo.yaml:10:9: http.listen: metrics.listen is 127.0.0.1:9390 and http.listen is 0.0.0.0:9390; choose another port for one",
    ];
    for line in expected {
        assert!(text.lines().any(|found| found == line), "\n{line}\nis not among\n{text}");
    }
    assert_eq!(text.lines().count(), expected.len(), "{text}");
}

#[test]
fn batches_must_fit_the_memory() {
    assert_fault(
        "capture: { memory: 4Mi, batch_bytes: 3MiB }",
        "dlo.yaml:5:25: capture.batch_bytes: 2 writers × 3MiB do not fit into capture.memory, 4MiB; allowed: at most 2097152 bytes",
    );
    assert_fault(
        "capture: { writers: 9 }",
        "dlo.yaml:5:12: capture.writers: given 9; allowed: at most database.max_connections, 8",
    );
}

#[test]
fn rules_routes_and_alerts_say_what_they_lack() {
    assert_fault("rules: [ { name: a, act: FORWARD } ]", "dlo.yaml:5:10: rules[0]: `act: FORWARD` needs `to`");
    assert_fault(
        "rules: [ { name: a, act: HOLD, backoff: [ 1m ] } ]",
        "dlo.yaml:5:32: rules[0].backoff: only for `act: RETRY`",
    );
    assert_fault(
        "routes: [ { to: { broker: kafka, exchange: x, routing_key: \"{typ}\" } } ]",
        "dlo.yaml:5:19: routes[0].to.broker: \"kafka\" is a kafka broker, and this place is one of rabbitmq",
    );
    assert_fault(
        "routes: [ { to: { broker: rabbit, exchange: x, routing_key: \"{typ}\" } } ]",
        "dlo.yaml:5:48: routes[0].to.routing_key: unknown placeholder \"{typ}\"; allowed: {event_type}, {service}, {key}",
    );
    assert_fault("alerts: [ { name: a, type: pagerduty } ]", "dlo.yaml:5:11: alerts[0]: `type: pagerduty` needs `key`");
    assert_fault(
        "log: { level: inof }",
        "dlo.yaml:5:8: log.level: given \"inof\"; allowed: error, warn, info, debug, trace, off, or module=level with commas; did you mean \"info\"?",
    );
}

#[test]
fn brokers_say_what_they_lack() {
    let of = |brokers: &str| faults(&format!("database: {{ url: \"postgres://localhost\" }}\nbrokers:\n{brokers}"));
    assert_eq!(of("  a: {}"), "dlo.yaml:3:3: brokers.a: a broker needs one of the sections `rabbitmq` and `kafka`");
    assert_eq!(
        of("  a: { rabbitmq: {} }"),
        "dlo.yaml:3:8: brokers.a.rabbitmq: `url` (or `urls`, for several hosts) is required here"
    );
    assert_eq!(
        of("  a: { rabbitmq: { url: \"amqp://u@h\" } }"),
        "dlo.yaml:3:20: brokers.a.rabbitmq.url: a user without a password; add it to the address, or as `password` beside it"
    );
    assert_eq!(
        of("  a: { rabbitmq: { urls: [ \"amqp://u:p@h/x\", \"amqp://u:p@i/y\" ] } }"),
        "dlo.yaml:3:20: brokers.a.rabbitmq.urls: the addresses name different virtual hosts; make a broker of each"
    );
    assert_eq!(
        of("  a: { kafka: { bootstrap_servers: \"h:9092,i:x\" } }"),
        "dlo.yaml:3:17: brokers.a.kafka.bootstrap_servers: a port is not a number from 1 to 65535; allowed: host:9092, with commas between several"
    );
    assert_eq!(
        of("  a: { kafka: { bootstrap_servers: h, properties: { group.id: x } } }"),
        "dlo.yaml:3:53: brokers.a.kafka.properties.\"group.id\": leave this out: it has its own key `group` in the source"
    );
}

#[test]
fn what_is_not_yaml_is_told_with_its_line() {
    for (text, place) in [
        ("database:\n\turl: x", "dlo.yaml:2:"),
        ("a: [ 1, 2", "dlo.yaml:"),
        ("a: *b", "dlo.yaml:1:4: `*` begins an alias here"),
        ("a: !vault b", "dlo.yaml:1:"),
        ("a: 1\n---\nb: 2", "dlo.yaml:3:1: a second document begins here"),
        ("a: &a [ *a ]", "dlo.yaml:1:"),
        ("? [ a ]\n: b", "dlo.yaml:1:"),
    ] {
        let faults = faults(text);
        assert!(faults.starts_with(place), "{text:?}: {faults}");
    }
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = "a0: &a0 [ x, x, x, x, x, x, x, x, x, x ]\n".to_owned();
    for n in 1..30 {
        let (aliases, before) = (format!("*a{}, ", n - 1).repeat(10), n);
        text += &format!("a{before}: &a{before} [ {} ]\n", aliases.trim_end_matches(", "));
    }
    assert!(faults(&text).contains("more than 100000 values"));
}

#[test]
fn anchors_and_merge_keys_work_as_in_other_programs() {
    let text = with(
        "capture: &c { memory: 2MiB, writers: 1 }\nsources:\n  - &s { name: a, broker: rabbit, queue: q }\n  - { <<: *s, name: b, queue: r }",
    );
    let config = load(&text).unwrap();
    assert_eq!((config.sources[1].name.as_str(), config.sources[1].broker.as_str()), ("b", "rabbit"));
}

#[test]
fn a_text_stays_the_text_it_was() {
    let text = with("sources: [ { name: 007, broker: rabbit, queue: no, service: 1.50 } ]\ncapture:\n");
    let config = load(&text).unwrap();
    let source = &config.sources[0];
    assert_eq!(
        (source.name.as_str(), source.queue.as_deref(), source.service.as_deref()),
        ("007", Some("no"), Some("1.50"))
    );
}
