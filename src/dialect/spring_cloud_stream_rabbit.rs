//! Spring Cloud Stream's Rabbit binder with `republishToDlq`: the headers of Spring AMQP's recoverer, but the
//! routing key of the republish is the name of the consumer's queue, and the count includes the last round.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{Dialect, spring_amqp, text};
use crate::{
    dead_letter::{CapturedFrom, Reading},
    message::{RawMessage, Text, Value},
};

#[derive(Debug)]
pub(super) struct SpringCloudStreamRabbit;

impl Dialect for SpringCloudStreamRabbit {
    fn name(&self) -> &'static str {
        "spring-cloud-stream-rabbit"
    }

    fn read(&self, message: &RawMessage, captured: &CapturedFrom) -> Option<Reading> {
        if !spring_amqp::republished(message) || !is_binder(message, captured) {
            return None;
        }
        let mut reading = spring_amqp::reading(message);
        reading.failure.attempts = spring_amqp::retry_count(message);

        let destination = message.headers.get("x-original-exchange").and_then(Value::as_bytes).unwrap_or_default();
        if let Some(queue) = consumer_queue(captured, destination) {
            let consumer = text::storable(queue.as_bytes(), "consumer", &mut reading.notes);
            reading.failure.consumer = Some(consumer);
            reading.origin.queue = Some(queue.clone());
        }
        Some(reading)
    }

    fn freshen(&self, message: &mut RawMessage) {
        spring_amqp::freshen(message);
    }
}

static BINDER_PACKAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"org.springframework.cloud.stream."));

/// Whether the binder republished the message, not an application's own recoverer: told by the binder's
/// default exchange and queue names, else by its frames in the stack trace, which it always writes.
pub(super) fn is_binder(message: &RawMessage, captured: &CapturedFrom) -> bool {
    let Some(trace) = message.headers.get(spring_amqp::TRACE).and_then(Value::as_bytes) else { return false };
    let default_names = captured.exchange.as_ref().is_some_and(|exchange| exchange == "DLX")
        && captured.routing_key.as_ref().is_some_and(|key| is_dlq_of(captured, key));
    default_names || BINDER_PACKAGE.find(trace).is_some()
}

/// The queue of the consumer, which is the routing key unless another one was configured. Told by the
/// binder's names: queues are `<destination>.<group>`, dead-letter queues `<queue>.dlq`.
fn consumer_queue<'a>(captured: &'a CapturedFrom, destination: &[u8]) -> Option<&'a Text> {
    let key = captured.routing_key.as_ref()?;
    let group = key.as_bytes().strip_prefix(destination).and_then(|rest| rest.strip_prefix(b"."));
    let named_after_group = !destination.is_empty() && group.is_some_and(|group| !group.is_empty());
    let is_captured_queue = captured.queue.as_deref().is_some_and(|queue| key == queue);
    ((named_after_group && !is_captured_queue) || is_dlq_of(captured, key)).then_some(key)
}

fn is_dlq_of(captured: &CapturedFrom, queue: &Text) -> bool {
    let dlq = captured.queue.as_deref().unwrap_or_default();
    !queue.is_empty() && dlq.strip_suffix(".dlq").is_some_and(|name| queue == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AmqpProperties, Headers};

    fn message(trace: &str) -> RawMessage {
        let mut headers = Headers::new();
        headers.push("x-original-exchange", Value::Str("orders".into()));
        headers.push("x-original-routingKey", Value::Str("created".into()));
        headers.push("x-exception-stacktrace", Value::Str(trace.into()));
        headers.push("retry-count", Value::I64(2));
        RawMessage::amqp(AmqpProperties::default(), headers, "")
    }

    fn captured(exchange: &str, routing_key: &str, queue: &str) -> CapturedFrom {
        CapturedFrom {
            exchange: Some(exchange.into()),
            routing_key: Some(routing_key.into()),
            queue: Some(queue.into()),
            ..CapturedFrom::default()
        }
    }

    const TRACE: &str = "a.B: x\n\tat org.springframework.cloud.stream.function.F.g(F.java:1)\n";

    #[test]
    fn the_binder_is_known_by_its_frames_when_the_letter_comes_through_our_own_exchange() {
        let captured = captured("dlo", "orders.billing", "dlo.dead-letters");

        let reading = SpringCloudStreamRabbit.read(&message(TRACE), &captured).unwrap();

        assert_eq!(reading.origin.queue, Some("orders.billing".into()));
        assert_eq!(reading.failure.consumer.as_deref(), Some("orders.billing"));
        assert_eq!(reading.failure.attempts, Some(2));
    }

    #[test]
    fn the_binder_is_known_by_its_default_names() {
        let reading =
            SpringCloudStreamRabbit.read(&message("a.B\n"), &captured("DLX", "billing", "billing.dlq")).unwrap();
        assert_eq!(reading.origin.queue, Some("billing".into()));
    }

    #[test]
    fn a_configured_routing_key_is_not_taken_for_a_queue() {
        for (key, queue) in [("dead", "dlo.dead-letters"), ("orders.dead", "orders.dead"), ("orders.", "x")] {
            let reading = SpringCloudStreamRabbit.read(&message(TRACE), &captured("dlo", key, queue)).unwrap();
            assert_eq!(reading.origin.queue, None, "{key}");
        }
    }

    #[test]
    fn a_letter_of_spring_amqp_is_not_the_binders() {
        let captured = captured("errors", "error.created", "all.errors");
        assert_eq!(SpringCloudStreamRabbit.read(&message("a.B: x\n\tat a.B.c(B.java:1)\n"), &captured), None);
    }
}
