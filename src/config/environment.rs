//! A configuration from the environment alone.

use super::{
    Environment,
    fault::Fault,
    path::Path,
    tree::{At, Node},
};

/// What to write when there is nothing to read.
pub(super) const SMALLEST: &str = "\
no configuration: neither -c FILE, DLO_CONFIG, ./dlo.yaml nor /etc/dlo/dlo.yaml, and no DLO_DATABASE_URL in the environment
The smallest environments:
    DLO_DATABASE_URL=postgres://user:password@host/database  DLO_RABBITMQ_URL=amqp://user:password@host
    DLO_DATABASE_URL=postgres://user:password@host/database  DLO_KAFKA_BROKERS=host:9092  DLO_KAFKA_TOPICS=orders-dlt
The smallest dlo.yaml:
    database: { url: \"${env:DLO_DATABASE_URL}\" }
    brokers: { rabbit: { rabbitmq: { url: \"${env:DLO_RABBITMQ_URL}\" } } }
    sources: [ { name: orders, broker: rabbit, exchange: dlo, queue: dlo.dead-letters } ]";

/// The tree a file would have given. An empty variable counts as not set.
pub(super) fn read(env: Environment<'_>) -> Result<Node, Vec<Fault>> {
    let text = |name: &'static str| {
        let value = env(name).filter(|value| !value.is_empty())?;
        Some(Node::text(At::Env(name), value))
    };
    let Some(database) = text("DLO_DATABASE_URL").or_else(|| text("DATABASE_URL")) else {
        return Err(vec![Fault::new(Path::default(), At::Unknown, SMALLEST)]);
    };
    let mut faults = Vec::new();
    let (mut brokers, mut sources) = (Vec::new(), Vec::new());
    if let Some(url) = text("DLO_RABBITMQ_URL") {
        let at = url.at;
        brokers.push(("rabbitmq", Node::map(at, [("rabbitmq", Node::map(at, [("url", url)]))])));
        let or = |name, default: &str| text(name).unwrap_or_else(|| Node::text(At::Unknown, default));
        sources.push(Node::map(
            at,
            [
                ("name", Node::text(at, "rabbitmq")),
                ("broker", Node::text(at, "rabbitmq")),
                ("exchange", or("DLO_RABBITMQ_EXCHANGE", "dlo")),
                ("queue", or("DLO_RABBITMQ_QUEUE", "dlo.dead-letters")),
            ],
        ));
    }
    match (text("DLO_KAFKA_BROKERS"), env("DLO_KAFKA_TOPICS").filter(|topics| !topics.is_empty())) {
        (None, None) => {}
        (None, Some(_)) => faults.push(missing("DLO_KAFKA_TOPICS", "DLO_KAFKA_BROKERS")),
        (Some(_), None) => faults.push(missing("DLO_KAFKA_BROKERS", "DLO_KAFKA_TOPICS")),
        (Some(servers), Some(topics)) => {
            let at = servers.at;
            brokers.push(("kafka", Node::map(at, [("kafka", Node::map(at, [("bootstrap_servers", servers)]))])));
            let topics_at = At::Env("DLO_KAFKA_TOPICS");
            let topics = split_topics(&topics).into_iter().map(|topic| Node::text(topics_at, topic));
            sources.push(Node::map(
                at,
                [
                    ("name", Node::text(at, "kafka")),
                    ("broker", Node::text(at, "kafka")),
                    ("group", text("DLO_KAFKA_GROUP").unwrap_or_else(|| Node::text(At::Unknown, "dlo"))),
                    ("topics", Node::list(topics_at, topics)),
                ],
            ));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let database_at = database.at;
    let mut root = vec![
        ("database", Node::map(database_at, [("url", database)])),
        ("brokers", Node::map(At::Unknown, brokers)),
        ("sources", Node::list(At::Unknown, sources)),
    ];
    for (name, section, key) in [
        ("DLO_HTTP_LISTEN", "http", "listen"),
        ("DLO_METRICS_LISTEN", "metrics", "listen"),
        ("DLO_LOG", "log", "level"),
    ] {
        root.extend(text(name).map(|value| (section, Node::map(value.at, [(key, value)]))));
    }
    Ok(Node::map(At::Unknown, root))
}

/// Commas part the topics, but not inside the braces, brackets and groups of a regular expression.
fn split_topics(text: &str) -> Vec<String> {
    let (mut topics, mut topic, mut depth) = (Vec::new(), String::new(), 0_u32);
    let mut escaped = false;
    for c in text.chars() {
        match c {
            ',' if depth == 0 && !escaped => topics.push(std::mem::take(&mut topic)),
            _ => {
                match c {
                    '{' | '[' | '(' if !escaped => depth += 1,
                    '}' | ']' | ')' if !escaped => depth = depth.saturating_sub(1),
                    _ => {}
                }
                topic.push(c);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    topics.push(topic);
    topics.iter().map(|topic| topic.trim().to_owned()).filter(|topic| !topic.is_empty()).collect()
}

fn missing(given: &'static str, other: &str) -> Fault {
    Fault::new(Path::default(), At::Env(given), format!("is set, and {other} is not; Kafka needs both"))
}
