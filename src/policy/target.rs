//! Where a replay is asked to go, in the words of the API and of column `dlo_replays.target`.

use serde_json::{Value as Json, json};

use crate::{
    config::Topic,
    dialect::{Place, Target},
    message::Text,
};

/// Why a text or object is no target.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTarget {
    #[error(
        r#"unknown target {0}; write "original", "queue", {{"queue": …}}, {{"exchange": …, "routing_key": …}} or {{"topic": …, "partition": …}}"#
    )]
    Unknown(String),
    #[error("topic {0:?} cannot exist; a topic has letters, digits, . _ -, at most 249")]
    Topic(String),
    #[error("partition {0} cannot exist; leave it out, and the key chooses")]
    Partition(String),
    #[error("a target {0} is not in this version")]
    NotYet(&'static str),
}

/// `"original"`, `"queue"`, `{"queue": …}`, `{"exchange": …, "routing_key": …}` or `{"topic": …, "partition": …}`.
pub fn parse(target: &Json) -> Result<Target, BadTarget> {
    let unknown = || BadTarget::Unknown(target.to_string());
    if let Some(word) = target.as_str() {
        return match word {
            "original" => Ok(Target::Original),
            "queue" => Ok(Target::Queue),
            _ => Err(unknown()),
        };
    }
    let fields = target.as_object().ok_or_else(unknown)?;
    if fields.contains_key("webhook") {
        return Err(BadTarget::NotYet("webhook"));
    }
    let text = |name: &str| fields.get(name).map(|value| value.as_str().ok_or_else(unknown)).transpose();
    let place = match (text("queue")?, text("exchange")?, text("routing_key")?, text("topic")?) {
        (Some(queue), None, None, None) if fields.len() == 1 && !queue.is_empty() => Place::queue(queue),
        (None, Some(exchange), key, None) if fields.len() == 1 + usize::from(key.is_some()) => {
            Place::Exchange { exchange: exchange.into(), routing_key: key.unwrap_or_default().into() }
        }
        (None, None, None, Some(topic)) if fields.keys().all(|name| matches!(name.as_str(), "topic" | "partition")) => {
            if !Topic::is_name(topic) {
                return Err(BadTarget::Topic(topic.to_owned()));
            }
            let partition = fields.get("partition").filter(|partition| !partition.is_null()).map(partition);
            Place::Topic { topic: topic.into(), partition: partition.transpose()? }
        }
        _ => return Err(unknown()),
    };
    Ok(Target::At(place))
}

fn partition(json: &Json) -> Result<i32, BadTarget> {
    let number = json.as_i64().and_then(|number| i32::try_from(number).ok()).filter(|number| *number >= 0);
    number.ok_or_else(|| BadTarget::Partition(json.to_string()))
}

/// The form that [`parse`] reads.
#[must_use]
pub fn to_json(target: &Target) -> Json {
    let text = |text: &Text| text.as_str().unwrap_or_default().to_owned();
    match target {
        Target::Original => json!("original"),
        Target::Queue => json!("queue"),
        Target::At(Place::Exchange { exchange, routing_key }) if exchange.is_empty() => {
            json!({"queue": text(routing_key)})
        }
        Target::At(Place::Exchange { exchange, routing_key }) => {
            json!({"exchange": text(exchange), "routing_key": text(routing_key)})
        }
        Target::At(Place::Topic { topic, partition: None }) => json!({"topic": text(topic)}),
        Target::At(Place::Topic { topic, partition }) => json!({"topic": text(topic), "partition": partition}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_the_api_names_them_and_written_back() {
        for form in [
            json!("original"),
            json!("queue"),
            json!({"queue": "orders"}),
            json!({"exchange": "shop", "routing_key": "orders.created"}),
            json!({"topic": "orders"}),
            json!({"topic": "orders", "partition": 3}),
        ] {
            assert_eq!(to_json(&parse(&form).expect("a target")), form);
        }
    }

    #[test]
    fn what_is_no_target_is_named() {
        for form in [
            json!("home"),
            json!(7),
            json!({}),
            json!({"queue": ""}),
            json!({"queue": "a", "exchange": "b"}),
            json!({"exchange": "a", "key": "b"}),
            json!({"queue": 5}),
            json!({"topic": 5}),
            json!({"topic": "t", "queue": "q"}),
            json!({"topic": "t", "key": "k"}),
            json!({"partition": 3}),
        ] {
            assert!(matches!(parse(&form), Err(BadTarget::Unknown(_))), "{form}");
        }
        assert_eq!(parse(&json!({"webhook": "w"})), Err(BadTarget::NotYet("webhook")));
        for topic in ["", "^orders", "a b", ".."] {
            assert_eq!(parse(&json!({"topic": topic})), Err(BadTarget::Topic(topic.to_owned())));
        }
        for partition in [json!(-1), json!(2_147_483_648_u32), json!("3"), json!(1.5)] {
            let target = json!({"topic": "t", "partition": partition});
            assert_eq!(parse(&target), Err(BadTarget::Partition(partition.to_string())));
        }
    }
}
