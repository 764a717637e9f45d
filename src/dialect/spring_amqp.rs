//! Spring AMQP's `RepublishMessageRecoverer`: the message published again, to an error exchange, with the
//! exception and the place it was received from in headers.
//!
//! The recoverer writes no class, no queue and no time. The class is in the stack trace, which newer versions
//! write only on request. The queue is known where the last hop was the default exchange, which delivers to
//! the queue of that name, and after a broker's retry ladder, whose history is still in `x-death`.

use super::{
    Dialect,
    deaths::{self, History, Reason},
    java_trace, note_unknown, spring_cloud_stream_rabbit, text,
};
use crate::{
    dead_letter::{CapturedFrom, FailureInfo, Notes, Origin, Reading},
    message::{RawMessage, Text, Value},
};

const EXCHANGE: &str = "x-original-exchange";
const ROUTING_KEY: &str = "x-original-routingKey";
const MESSAGE: &str = "x-exception-message";
pub(super) const TRACE: &str = "x-exception-stacktrace";
const RETRY_COUNT: &str = "retry-count";

#[derive(Debug)]
pub(super) struct SpringAmqp;

impl Dialect for SpringAmqp {
    fn name(&self) -> &'static str {
        "spring-amqp"
    }

    fn read(&self, message: &RawMessage, captured: &CapturedFrom) -> Option<Reading> {
        if !republished(message) || spring_cloud_stream_rabbit::is_binder(message, captured) {
            return None;
        }
        let mut reading = reading(message);
        // The header counts the rounds before this one.
        reading.failure.attempts = retry_count(message).and_then(|rounds| rounds.checked_add(1));
        Some(reading)
    }

    fn freshen(&self, message: &mut RawMessage) {
        freshen(message);
    }
}

/// Whether the recoverer wrote this. Its Kafka relative uses the same exception headers, with a topic.
pub(super) fn republished(message: &RawMessage) -> bool {
    message.properties.amqp().is_some() && message.headers.contains(ROUTING_KEY) && message.headers.contains(EXCHANGE)
}

/// All but the attempts, which the two writers of these headers count differently.
pub(super) fn reading(message: &RawMessage) -> Reading {
    let mut notes = Notes::default();
    note_unknown(message, &["x-exception-", "x-original-"], &[EXCHANGE, ROUTING_KEY, MESSAGE, TRACE], &mut notes);
    let origin = origin(message);
    let mut failure = failure(message, &mut notes);
    failure.consumer = origin.queue.as_ref().map(|queue| text::storable(queue.as_bytes(), "consumer", &mut notes));
    Reading { origin, failure, notes, ..Reading::default() }
}

/// Strips what the recoverer wrote. `x-original-` is not its prefix alone, so only its own two names go.
pub(super) fn freshen(message: &mut RawMessage) {
    message.headers.retain(|name, _| {
        let name = name.as_bytes();
        let ours = [EXCHANGE, ROUTING_KEY, RETRY_COUNT].into_iter().any(|ours| name == ours.as_bytes());
        !(ours || name.starts_with(b"x-exception-"))
    });
}

/// Rounds through the broker, as the application or the recoverer counted them.
pub(super) fn retry_count(message: &RawMessage) -> Option<i32> {
    let count = message.headers.get(RETRY_COUNT)?.as_int()?;
    i32::try_from(count).ok().filter(|count| *count >= 0)
}

fn failure(message: &RawMessage, notes: &mut Notes) -> FailureInfo {
    let bytes = |name: &str| message.headers.get(name).and_then(Value::as_bytes);
    let traceback = bytes(TRACE).map(|trace| text::storable(trace, "traceback", notes));
    if traceback.as_deref().is_some_and(java_trace::is_cut) {
        notes.add("doubts", "the stack trace is cut; the innermost cause may be missing");
    }
    FailureInfo {
        error_class: traceback.as_deref().and_then(java_trace::innermost_class).map(str::to_owned),
        error_message: bytes(MESSAGE).map(|said| text::storable(said, "error_message", notes)),
        traceback,
        ..FailureInfo::default()
    }
}

fn origin(message: &RawMessage) -> Origin {
    let last_hop = LastHop { exchange: str_header(message, EXCHANGE), routing_key: str_header(message, ROUTING_KEY) };
    let before = deaths::of(message).filter(|history| last_hop.comes_after(history, message));

    let first_publish = before.as_ref().map(History::origin);
    let (exchange, routing_key) = match first_publish {
        Some((Some(exchange), Some(routing_key), _)) => (Some(exchange), Some(routing_key)),
        _ => (last_hop.exchange, last_hop.routing_key),
    };
    let queue = last_hop.queue().or_else(|| before.as_ref().and_then(retried_queue));
    Origin {
        exchange: exchange.cloned(),
        routing_key: routing_key.cloned(),
        queue: queue.cloned(),
        ..Origin::default()
    }
}

/// The publish by which the message reached the consumer that failed.
struct LastHop<'a> {
    exchange: Option<&'a Text>,
    routing_key: Option<&'a Text>,
}

impl<'a> LastHop<'a> {
    /// The default exchange delivers to the queue that the routing key names.
    fn queue(&self) -> Option<&'a Text> {
        self.routing_key.filter(|key| !key.is_empty() && self.exchange.is_some_and(Text::is_empty))
    }

    /// Whether the broker's history is older than the republish. It may also be younger: the letter expired
    /// in the error queue, and then `x-death` begins with the error exchange.
    fn comes_after(&self, history: &History<'_>, message: &RawMessage) -> bool {
        let first_key = history.origin().1.map(Text::as_bytes).unwrap_or_default();
        let error_key = first_key.strip_prefix(b"error.".as_slice());
        if error_key.is_some_and(|key| self.routing_key.is_some_and(|ours| ours.as_bytes() == key)) {
            return false;
        }
        // The recoverer fills the count from a history that it sees.
        message.headers.contains(RETRY_COUNT) || self.queue().is_some_and(|queue| history.died_in(queue.as_bytes()))
    }
}

/// The queue that a message came back to from a delay queue. A message that was only rejected went on to
/// another queue, of which the history says nothing.
fn retried_queue<'a>(history: &History<'a>) -> Option<&'a Text> {
    let failure = history.failure()?;
    let newest = history.newest()?;
    (newest.reason == Reason::Expired && newest.queue != failure.queue).then_some(failure.queue)
}

fn str_header<'a>(message: &'a RawMessage, name: &str) -> Option<&'a Text> {
    match message.headers.get(name)? {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AmqpProperties, Headers};

    fn message(headers: &[(&str, &str)]) -> RawMessage {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), Value::Str((*value).into()))).collect();
        RawMessage::amqp(AmqpProperties::default(), headers, "")
    }

    fn died(mut message: RawMessage, deaths: &[(&str, &str, &str, &str)]) -> RawMessage {
        let entry = |(queue, reason, exchange, key): &(&str, &str, &str, &str)| {
            let mut table = Headers::new();
            for (name, value) in [("queue", queue), ("reason", reason), ("exchange", exchange)] {
                table.push(name, Value::Str((*value).into()));
            }
            table.push("routing-keys", Value::Array(vec![Value::Str((*key).into())]));
            Value::Table(table)
        };
        message.headers.push("x-death", Value::Array(deaths.iter().map(entry).collect()));
        message
    }

    #[test]
    fn the_default_exchange_tells_the_queue() {
        let origin = origin(&message(&[(EXCHANGE, ""), (ROUTING_KEY, "orders")]));
        assert_eq!(origin.queue, Some("orders".into()));
        assert_eq!(origin.exchange, Some("".into()));
    }

    #[test]
    fn a_history_that_began_in_the_error_queue_does_not_hide_the_origin() {
        let message = message(&[(EXCHANGE, "shop"), (ROUTING_KEY, "created"), (RETRY_COUNT, "2")]);
        let message = died(message, &[("all.errors", "expired", "errors", "error.created")]);

        let origin = origin(&message);

        assert_eq!(origin.exchange, Some("shop".into()));
        assert_eq!(origin.queue, None);
    }

    #[test]
    fn behind_a_retry_ladder_through_an_exchange_the_history_tells_queue_and_origin() {
        let message = message(&[(EXCHANGE, "shop.requeue"), (ROUTING_KEY, "back"), (RETRY_COUNT, "1")]);
        let message =
            died(message, &[("wait", "expired", "shop.wait", "w"), ("billing", "rejected", "shop", "created")]);

        // No times, so the broker's companions have to say which was the first.
        let mut message = message;
        message.headers.push("x-first-death-queue", Value::Str("billing".into()));
        message.headers.push("x-first-death-reason", Value::Str("rejected".into()));

        let origin = origin(&message);
        assert_eq!(origin.exchange, Some("shop".into()));
        assert_eq!(origin.routing_key, Some("created".into()));
        assert_eq!(origin.queue, Some("billing".into()));
    }

    #[test]
    fn a_consumer_of_a_dead_letter_queue_that_failed_is_not_the_queue_before_it() {
        let message = message(&[(EXCHANGE, "dlx"), (ROUTING_KEY, "created"), (RETRY_COUNT, "1")]);
        let message = died(message, &[("billing", "rejected", "shop", "created")]);

        let origin = origin(&message);

        assert_eq!(origin.queue, None);
        assert_eq!(origin.exchange, Some("shop".into()));
    }

    #[test]
    fn the_count_may_have_any_integer_type_and_an_absurd_one_is_unknown() {
        for (value, attempts) in [
            (Value::I32(2), Some(3)),
            (Value::U8(0), Some(1)),
            (Value::Str("2".into()), Some(3)),
            (Value::I64(-1), None),
            (Value::I64(i64::from(i32::MAX)), None),
            (Value::Bool(true), None),
        ] {
            let mut message = message(&[(EXCHANGE, "shop"), (ROUTING_KEY, "created")]);
            message.headers.push(RETRY_COUNT, value);
            let reading = SpringAmqp.read(&message, &CapturedFrom::default()).unwrap();
            assert_eq!(reading.failure.attempts, attempts);
        }
    }

    #[test]
    fn the_exception_headers_go_and_names_that_others_use_stay() {
        let mut message = message(&[
            (EXCHANGE, "shop"),
            (ROUTING_KEY, "created"),
            (MESSAGE, "m"),
            (TRACE, "t"),
            (RETRY_COUNT, "1"),
            ("x-original-message-id", "7"),
            ("tenant", "eu-1"),
        ]);
        SpringAmqp.freshen(&mut message);
        let left: Vec<_> = message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["x-original-message-id", "tenant"]);
    }
}
