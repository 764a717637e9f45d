//! One attempt: the letter, its way home, the publish, what to record.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value as Json;

use super::{Confirmed, PublishError, Publisher};
use crate::{
    dialect::{self, Publish, Target},
    message::Text,
    store::claim::{End, Lease, Letter, Record},
};

/// Makes the attempt of `lease`.
pub(super) async fn attempt(
    publishers: Arc<HashMap<String, Arc<dyn Publisher>>>,
    lease: Lease,
    letter: Option<Letter>,
) -> Record {
    let lease = &lease;
    let Some(letter) = letter else {
        return record(lease, None, End::Refused("the letter is gone".to_owned()));
    };
    let Some(publisher) = letter.broker.as_ref().and_then(|broker| publishers.get(broker)) else {
        return not_sent(lease, "its broker is not one of this instance");
    };
    let publish = match prepare(lease, letter) {
        Ok(publish) => publish,
        Err(why) => return record(lease, None, End::Refused(why)),
    };
    let end = match publisher.publish(&publish).await {
        Ok(confirmed) => routed(confirmed),
        Err(PublishError::Unroutable(why)) => End::Unroutable(why),
        Err(PublishError::Refused(why)) => End::Refused(why),
        Err(PublishError::InDoubt(why)) => End::InDoubt(why),
        Err(PublishError::NotSent(why)) => End::NotSent(why),
    };
    record(lease, Some(&publish), end)
}

/// The one place where success is made, and it takes the publisher's word.
fn routed(_: Confirmed) -> End {
    End::Routed
}

pub(super) fn not_sent(lease: &Lease, why: &str) -> Record {
    record(lease, None, End::NotSent(why.to_owned()))
}

fn prepare(lease: &Lease, letter: Letter) -> Result<Publish, String> {
    let target = parse_target(&lease.target)?;
    let Letter { dialect, origin, captured, message, .. } = letter;
    let mut publish =
        dialect::home(dialect.as_deref(), message?, &captured, &origin, &target).map_err(|error| error.to_string())?;
    dialect::stamp(&mut publish.message, lease.letter, &lease.token.to_string());
    Ok(publish)
}

/// A target as a request names it: `"original"`, `"queue"`, `{"queue": …}`, `{"exchange": …, "routing_key": …}`.
pub fn parse_target(target: &Json) -> Result<Target, String> {
    let field = |name: &str| target.get(name).and_then(Json::as_str);
    match target.as_str() {
        Some("original") => Ok(Target::Original),
        Some("queue") => Ok(Target::Queue),
        None => match (field("queue"), field("exchange"), field("routing_key")) {
            (Some(queue), None, None) => Ok(Target::queue(queue)),
            (None, Some(exchange), key) => {
                Ok(Target::Exchange { exchange: exchange.into(), routing_key: key.unwrap_or_default().into() })
            }
            _ => Err(format!(
                "unknown target {target}: original, queue, {{\"queue\": …}} or {{\"exchange\": …, \"routing_key\": …}}"
            )),
        },
        Some(other) => Err(format!("unknown target {other:?}: original or queue")),
    }
}

fn record(lease: &Lease, publish: Option<&Publish>, end: End) -> Record {
    let name = |f: fn(&Publish) -> &Text| publish.and_then(|p| f(p).as_sql()).map(str::to_owned);
    Record { replay: lease.replay, exchange: name(|p| &p.exchange), routing_key: name(|p| &p.routing_key), end }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_read_as_the_contract_names_them() {
        assert_eq!(parse_target(&json!("original")), Ok(Target::Original));
        assert_eq!(parse_target(&json!("queue")), Ok(Target::Queue));
        assert_eq!(parse_target(&json!({"queue": "q"})), Ok(Target::queue("q")));
        let exchange = Target::Exchange { exchange: "x".into(), routing_key: "k".into() };
        assert_eq!(parse_target(&json!({"exchange": "x", "routing_key": "k"})), Ok(exchange));
        assert!(parse_target(&json!("home")).expect_err("refused").contains("home"));
        assert!(parse_target(&json!({"topic": "t"})).is_err());
    }
}
