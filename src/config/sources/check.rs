use super::Source;
use crate::config::{
    Config,
    brokers::Broker,
    check::Checks,
    fault::{shown, suggestion},
    path::Path,
};

/// The most bytes AMQP 0-9-1 allows in a name.
const NAME_MAX: usize = 255;

pub(in crate::config) fn check(config: &Config, checks: &mut Checks<'_>) {
    let path = |n: usize| Path::from("sources").index(n);
    let names = config.sources.iter().enumerate();
    checks.unique(names.map(|(n, source)| (path(n).key("name"), source.name.as_str())));
    for (n, source) in config.sources.iter().enumerate() {
        let path = path(n);
        checks.name(path.clone().key("name"), &source.name);
        if source.service.as_deref() == Some("") {
            checks.fault(path.clone().key("service"), "it is empty; leave it out, or name a service");
        }
        match config.brokers.get(&source.broker) {
            Some(Broker::Rabbitmq(_)) => check_rabbitmq(source, &path, checks),
            Some(Broker::Kafka(_)) => check_kafka(source, &path, checks),
            None => unknown_broker(config, &path.key("broker"), &source.broker, checks),
        }
    }
    same_place(config, checks);
}

/// Says which broker was probably meant, or how to write one.
pub(in crate::config) fn unknown_broker(config: &Config, path: &Path, name: &str, checks: &mut Checks<'_>) {
    let known = config.brokers.keys().map(String::as_str);
    let hint = match known.len() {
        0 => "the section `brokers` is empty".to_owned(),
        _ => suggestion(name, known),
    };
    let name = shown(name).unwrap_or_default();
    checks.fault(path.clone(), format!("no broker is called \"{name}\"; {hint}"));
}

fn check_rabbitmq(source: &Source, path: &Path, checks: &mut Checks<'_>) {
    foreign(source, path, checks, "rabbitmq", "kafka", ["topics", "group", "start"]);
    let ours = source.exchange.is_some();
    match source.queue.as_deref() {
        None | Some("") => checks.fault(path.clone(), "`queue` is required for a source of a rabbitmq broker"),
        Some(queue) => amqp_name(path.clone().key("queue"), queue, ours, checks),
    }
    match source.exchange.as_deref() {
        Some("") => checks.fault(path.clone().key("exchange"), "it is empty; the default exchange cannot be bound"),
        Some(exchange) => amqp_name(path.clone().key("exchange"), exchange, ours, checks),
        None if source.queue_type.is_some() => {
            checks.warn(
                path.clone().key("queue_type"),
                "has no effect without `exchange`: an existing queue is only consumed",
            );
        }
        None => {}
    }
}

fn check_kafka(source: &Source, path: &Path, checks: &mut Checks<'_>) {
    foreign(source, path, checks, "kafka", "rabbitmq", ["exchange", "queue", "queue_type", "prefetch"]);
    if source.topics.is_empty() {
        checks.fault(path.clone(), "`topics` is required for a source of a kafka broker");
    }
    if source.group.as_deref() == Some("") {
        checks.fault(path.clone().key("group"), "it is empty; leave it out for \"dlo\", or name a group");
    }
}

/// Keys that mean something to the other kind of broker only.
fn foreign<const N: usize>(
    source: &Source,
    path: &Path,
    checks: &mut Checks<'_>,
    kind: &str,
    other: &str,
    keys: [&str; N],
) {
    for key in keys {
        let path = path.clone().key(key);
        if checks.is_given(&path) {
            let broker = &source.broker;
            checks.fault(path, format!("this key is for {other} brokers, and \"{broker}\" is a {kind} broker"));
        }
    }
}

/// A name that is `ours` is declared, which the broker refuses for its own names.
fn amqp_name(path: Path, name: &str, ours: bool, checks: &mut Checks<'_>) {
    if name.len() > NAME_MAX {
        checks.fault(path, format!("{} bytes; allowed: at most {NAME_MAX}", name.len()));
    } else if ours && name.starts_with("amq.") {
        checks.fault(path, "names that begin with `amq.` are the broker's own; choose another");
    }
}

/// Two sources that drain one queue would share its letters by chance.
fn same_place(config: &Config, checks: &mut Checks<'_>) {
    let queues = config.sources.iter().enumerate().filter_map(|(n, source)| Some((n, source, source.queue.as_ref()?)));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (n, source, queue) in queues {
        let place = (source.broker.as_str(), queue.as_str());
        if seen.contains(&place) {
            let path = Path::from("sources").index(n).key("queue");
            checks.fault(path, "another source above consumes the same queue of the same broker");
        }
        seen.push(place);
    }
}
