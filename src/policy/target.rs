//! Where a replay is asked to go, in the words of the API and of column `dlo_replays.target`.

use serde_json::{Value as Json, json};

use crate::{dialect::Target, message::Text};

/// Why a text or object is no target.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTarget {
    #[error(r#"unknown target {0}; write "original", "queue", {{"queue": …}} or {{"exchange": …, "routing_key": …}}"#)]
    Unknown(String),
    #[error("a target {0} is not in this version")]
    NotYet(&'static str),
}

/// `"original"`, `"queue"`, `{"queue": …}` or `{"exchange": …, "routing_key": …}`.
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
    if fields.contains_key("topic") {
        return Err(BadTarget::NotYet("topic"));
    }
    if fields.contains_key("webhook") {
        return Err(BadTarget::NotYet("webhook"));
    }
    let text = |name: &str| fields.get(name).map(|value| value.as_str().ok_or_else(unknown)).transpose();
    match (text("queue")?, text("exchange")?, text("routing_key")?) {
        (Some(queue), None, None) if fields.len() == 1 && !queue.is_empty() => Ok(Target::queue(queue)),
        (None, Some(exchange), key) if fields.len() == 1 + usize::from(key.is_some()) => {
            Ok(Target::Exchange { exchange: exchange.into(), routing_key: key.unwrap_or_default().into() })
        }
        _ => Err(unknown()),
    }
}

/// The form that [`parse`] reads.
#[must_use]
pub fn to_json(target: &Target) -> Json {
    let text = |text: &Text| text.as_str().unwrap_or_default().to_owned();
    match target {
        Target::Original => json!("original"),
        Target::Queue => json!("queue"),
        Target::Exchange { exchange, routing_key } if exchange.is_empty() => json!({"queue": text(routing_key)}),
        Target::Exchange { exchange, routing_key } => {
            json!({"exchange": text(exchange), "routing_key": text(routing_key)})
        }
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
        ] {
            assert!(matches!(parse(&form), Err(BadTarget::Unknown(_))), "{form}");
        }
        assert_eq!(parse(&json!({"topic": "t"})), Err(BadTarget::NotYet("topic")));
    }
}
