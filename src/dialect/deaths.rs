//! RabbitMQ's own history of a message: the header `x-death` and its companions.
//!
//! One entry per queue and reason, with a count. Brokers disagree on the order: 4.x writes the newest first,
//! 3.10 keeps only entry 0 in place and turns the rest around with each death, 3.13 has a map and says in
//! `x-last-death-*` which was the last. `time` is that of the *first* death of a pair everywhere but in
//! LavinMQ. So the newest is what `x-last-death-*` names, else entry 0, and all others go by time.

use chrono::{DateTime, Utc};

use super::ladder;
use crate::message::{Headers, RawMessage, Text, Value};

/// Entries beyond this many are not looked at. One history has as many as a message passed queues; only a
/// client that writes `x-death` itself makes thousands.
const ENTRIES_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Rejected,
    DeliveryLimit,
    Expired,
    MaxLen,
    Other,
}

/// One entry of `x-death`.
#[derive(Debug)]
pub(super) struct Death<'a> {
    pub(super) queue: &'a Text,
    pub(super) reason: Reason,
    /// The reason as the broker wrote it.
    pub(super) reason_text: &'a Text,
    exchange: Option<&'a Text>,
    routing_keys: &'a [Value],
    /// Deaths of this queue and reason; `None` when the value is no count.
    count: Option<u32>,
    time: Option<DateTime<Utc>>,
    /// Of the latest death; only in the AMQP 1.0 form.
    last_time: Option<DateTime<Utc>>,
}

/// A recognised history: at least one entry.
#[derive(Debug)]
pub(super) struct History<'a> {
    deaths: Vec<Death<'a>>,
    headers: &'a Headers,
}

/// The history of a message; `None` without a list in which at least one entry is a table with queue and reason.
pub(super) fn of(message: &RawMessage) -> Option<History<'_>> {
    message.properties.amqp()?;
    let headers = &message.headers;
    let entries = ["x-death", "x-opt-deaths"].into_iter().find_map(|name| headers.get(name)?.as_array())?;

    let mut deaths = Vec::with_capacity(entries.len().min(ENTRIES_MAX));
    deaths.extend(entries.iter().take(ENTRIES_MAX).filter_map(|entry| death(entry.as_table()?)));
    (!deaths.is_empty()).then_some(History { deaths, headers })
}

/// What is odd about a message's history, in words for the notes.
pub(super) fn oddity(message: &RawMessage) -> Option<String> {
    message.properties.amqp()?;
    let entries = match message.headers.get("x-death")? {
        Value::Array(entries) => entries,
        // A client that republished with every header turned into text.
        _ => return Some("x-death is no list".to_owned()),
    };
    if entries.is_empty() {
        return Some("x-death is empty".to_owned());
    }
    let read = entries.iter().take(ENTRIES_MAX).filter(|entry| entry.as_table().and_then(death).is_some()).count();
    let skipped = entries.len() - read;
    (skipped > 0).then(|| format!("x-death: {skipped} of {} entries not read", entries.len()))
}

impl<'a> History<'a> {
    /// The death that explains the letter: its queue is the failed queue.
    ///
    /// A consumer's refusal goes before an overflow and an overflow before an expiry, however old: after a
    /// retry ladder, or in a dead-letter queue with a time to live, the newest death is the plumbing's.
    /// `None` when the message only ever expired in delay queues.
    pub(super) fn failure(&self) -> Option<&Death<'a>> {
        self.newest_of(|death| matches!(death.reason, Reason::Rejected | Reason::DeliveryLimit))
            .or_else(|| self.newest_of(|death| death.reason != Reason::Expired))
            .or_else(|| self.newest_of(|death| !self.is_delay(death)))
    }

    /// The latest death, plumbing or not.
    pub(super) fn newest(&self) -> Option<&Death<'a>> {
        self.newest_of(|_| true)
    }

    /// Whether the message died in this queue.
    pub(super) fn died_in(&self, queue: &[u8]) -> bool {
        self.deaths.iter().any(|death| death.queue.as_bytes() == queue)
    }

    /// How often the consumer of the failed queue tried, as far as the broker counts it.
    ///
    /// Zero when nobody did: the message expired or was pushed out. Unknown behind a delivery limit: its
    /// count says 1 however often the message was delivered.
    pub(super) fn attempts(&self, failure: &Death<'_>) -> Option<i32> {
        match failure.reason {
            Reason::Expired | Reason::MaxLen => return Some(0),
            Reason::DeliveryLimit | Reason::Other => return None,
            Reason::Rejected => {}
        }
        let mut sum = 0_i32;
        for death in self.deaths.iter().filter(|death| death.queue == failure.queue) {
            match death.reason {
                Reason::Rejected => sum = sum.saturating_add(i32::try_from(death.count?).unwrap_or(i32::MAX)),
                Reason::DeliveryLimit => return None,
                _ => {}
            }
        }
        Some(sum)
    }

    /// Exchange, routing key and further (`CC`) keys of the first publish, each as far as it is known.
    ///
    /// Unknown behind a framework's delay queue: the exchange in front of that is the framework's own.
    pub(super) fn origin(&self) -> (Option<&'a Text>, Option<&'a Text>, &'a [Value]) {
        let Some(first) = self.first() else {
            // The companions are what the broker wrote first of all, so their exchange stands.
            return (self.companion("x-first-death-exchange"), None, &[]);
        };
        if self.is_delay(first) {
            return (None, None, &[]);
        }
        let exchange = self.companion("x-first-death-exchange").or(first.exchange);
        let (key, copies) = match first.routing_keys {
            [key, copies @ ..] => (text(key), copies),
            [] => (None, [].as_slice()),
        };
        (exchange, key, copies)
    }

    /// The oldest entry. Without the companions (before 3.7) the one with the oldest time.
    fn first(&self) -> Option<&Death<'a>> {
        match (self.companion("x-first-death-queue"), self.companion("x-first-death-reason")) {
            (Some(queue), Some(reason)) => self.pair(queue, reason),
            _ => self.deaths.iter().enumerate().min_by_key(|(index, d)| (d.time, usize::MAX - index)).map(|(_, d)| d),
        }
    }

    fn newest_of(&self, wanted: impl Fn(&Death<'a>) -> bool) -> Option<&Death<'a>> {
        let latest = match (self.companion("x-last-death-queue"), self.companion("x-last-death-reason")) {
            (Some(queue), Some(reason)) => self.pair(queue, reason),
            _ => self.deaths.first(),
        };
        latest.filter(|death| wanted(death)).or_else(|| {
            let candidates = self.deaths.iter().enumerate().filter(|(_, death)| wanted(death));
            // Times have whole seconds; among equals the earlier entry is the better guess.
            candidates.max_by_key(|(index, d)| (d.last_time.or(d.time), usize::MAX - index)).map(|(_, d)| d)
        })
    }

    fn pair(&self, queue: &Text, reason: &Text) -> Option<&Death<'a>> {
        self.deaths.iter().find(|death| death.queue == queue && death.reason_text == reason)
    }

    fn companion(&self, name: &str) -> Option<&'a Text> {
        text(self.headers.get(name)?)
    }

    fn is_delay(&self, death: &Death<'_>) -> bool {
        death.reason == Reason::Expired && ladder::delays(death.queue.as_bytes(), |queue| self.died_in(queue))
    }
}

impl Death<'_> {
    /// When the consumer gave up: known while the pair counts one death, because `time` is that of the first.
    pub(super) fn failed_at(&self) -> Option<DateTime<Utc>> {
        self.last_time.or_else(|| self.time.filter(|_| self.count == Some(1)))
    }
}

/// One pass over the entry: the order of its fields differs between brokers.
fn death(table: &Headers) -> Option<Death<'_>> {
    let (mut queue, mut reason, mut exchange, mut time, mut first_time, mut last_time) =
        (None, None, None, None, None, None);
    let mut routing_keys: &[Value] = &[];
    let mut count = Some(1); // before 3.7 an entry stands for one death and has no count

    for (name, value) in table.iter() {
        match name.as_bytes() {
            b"queue" => queue = text(value),
            b"reason" => reason = text(value),
            b"exchange" => exchange = text(value),
            b"routing-keys" => routing_keys = value.as_array().unwrap_or_default(),
            b"count" => count = value.as_int().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0),
            b"time" => time = moment(value),
            b"first-time" => first_time = moment(value),
            b"last-time" => last_time = moment(value),
            _ => {}
        }
    }

    let reason_text = reason?;
    let reason = match reason_text.as_bytes() {
        b"rejected" => Reason::Rejected,
        b"delivery_limit" => Reason::DeliveryLimit,
        b"expired" => Reason::Expired,
        b"maxlen" => Reason::MaxLen,
        _ => Reason::Other,
    };
    let time = time.or(first_time);
    Some(Death { queue: queue?, reason, reason_text, exchange, routing_keys, count, time, last_time })
}

fn text(value: &Value) -> Option<&Text> {
    match value {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

/// AMQP 0-9-1 counts seconds, AMQP 1.0 milliseconds; in this century only one of the two readings is possible.
fn moment(value: &Value) -> Option<DateTime<Utc>> {
    let number = match value {
        Value::Timestamp(seconds) => i64::try_from(*seconds).ok()?,
        other => other.as_int()?,
    };
    match number {
        0..100_000_000_000 => DateTime::from_timestamp(number, 0),
        100_000_000_000..100_000_000_000_000 => DateTime::from_timestamp_millis(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::AmqpProperties;

    fn entry(queue: &str, reason: &str, count: i64, time: u64) -> Value {
        let mut table = Headers::new();
        table.push("count", Value::I64(count));
        table.push("reason", Value::Str(reason.into()));
        table.push("queue", Value::Str(queue.into()));
        table.push("time", Value::Timestamp(time));
        table.push("exchange", Value::Str(format!("to-{queue}").into()));
        table.push("routing-keys", Value::Array(vec![Value::Str(format!("key-{queue}").into())]));
        Value::Table(table)
    }

    fn message(entries: Vec<Value>, companions: &[(&str, &str)]) -> RawMessage {
        let mut headers = Headers::new();
        headers.push("x-death", Value::Array(entries));
        for (name, value) in companions {
            headers.push(*name, Value::Str((*value).into()));
        }
        RawMessage::amqp(AmqpProperties::default(), headers, "")
    }

    fn failed_queue(message: &RawMessage) -> Option<String> {
        Some(of(message)?.failure()?.queue.as_str()?.to_owned())
    }

    #[test]
    fn entries_behind_the_first_are_ordered_by_time_whatever_their_place() {
        let zigzag = vec![
            entry("wait", "expired", 1, 40),
            entry("oldest", "rejected", 1, 10),
            entry("newer", "rejected", 1, 30),
            entry("middle", "rejected", 1, 20),
        ];
        assert_eq!(failed_queue(&message(zigzag, &[])).as_deref(), Some("newer"));
    }

    #[test]
    fn the_first_entry_is_the_newest_though_its_time_is_that_of_its_first_death() {
        let returned = vec![entry("orders", "rejected", 2, 10), entry("billing", "rejected", 1, 20)];
        assert_eq!(failed_queue(&message(returned, &[])).as_deref(), Some("orders"));
    }

    #[test]
    fn the_last_death_is_believed_where_the_broker_names_it() {
        let map_order = vec![entry("a", "rejected", 1, 10), entry("b", "rejected", 2, 5)];
        let last = [("x-last-death-queue", "b"), ("x-last-death-reason", "rejected")];
        assert_eq!(failed_queue(&message(map_order, &last)).as_deref(), Some("b"));
    }

    #[test]
    fn an_overflow_goes_before_an_expiry_and_a_refusal_before_both() {
        let archived = vec![entry("dlq", "expired", 1, 30), entry("orders", "maxlen", 1, 10)];
        assert_eq!(failed_queue(&message(archived, &[])).as_deref(), Some("orders"));

        let overflowed = vec![entry("dlq", "maxlen", 1, 30), entry("orders", "rejected", 1, 10)];
        assert_eq!(failed_queue(&message(overflowed, &[])).as_deref(), Some("orders"));
    }

    #[test]
    fn a_queue_in_which_a_message_only_expired_failed_when_there_is_no_other() {
        let expired = message(vec![entry("orders", "expired", 3, 10)], &[]);
        let history = of(&expired).unwrap();
        let failure = history.failure().unwrap();

        assert_eq!(*failure.queue, "orders");
        assert_eq!(history.attempts(failure), Some(0));
        assert_eq!(failure.failed_at(), None);
    }

    #[test]
    fn behind_a_delay_queue_the_original_exchange_is_unknown_and_the_failed_queue_is_not() {
        let entries = vec![entry("billing", "rejected", 1, 20), entry("celery_delayed_4", "expired", 1, 10)];
        let delayed = message(entries, &[("x-first-death-exchange", "celery_delayed_4")]);
        let history = of(&delayed).unwrap();

        assert_eq!(history.origin(), (None, None, [].as_slice()));
        assert_eq!(failed_queue(&delayed).as_deref(), Some("billing"));
        assert_eq!(failed_queue(&message(vec![entry("celery_delayed_4", "expired", 1, 10)], &[])), None);
    }

    #[test]
    fn attempts_are_the_refusals_of_the_failed_queue_and_unknown_behind_a_delivery_limit() {
        let entries = vec![entry("a", "rejected", 4, 3), entry("b", "rejected", 9, 2), entry("a", "expired", 7, 1)];
        let rejected = message(entries, &[]);
        let history = of(&rejected).unwrap();
        assert_eq!(history.attempts(history.failure().unwrap()), Some(4));

        let limited = message(vec![entry("a", "rejected", 4, 3), entry("a", "delivery_limit", 1, 2)], &[]);
        let history = of(&limited).unwrap();
        assert_eq!(history.attempts(history.failure().unwrap()), None);
    }

    #[test]
    fn the_time_of_the_latest_death_is_known_in_the_amqp_1_0_form() {
        let mut table = Headers::new();
        table.push("queue", Value::Str("orders".into()));
        table.push("reason", Value::Str("rejected".into()));
        table.push("count", Value::I64(3));
        table.push("first-time", Value::I64(1_772_615_000_000));
        table.push("last-time", Value::I64(1_772_615_722_481));
        let mut headers = Headers::new();
        headers.push("x-opt-deaths", Value::Array(vec![Value::Table(table)]));
        let message = RawMessage::amqp(AmqpProperties::default(), headers, "");

        let history = of(&message).unwrap();

        assert_eq!(history.failure().unwrap().failed_at(), DateTime::from_timestamp_millis(1_772_615_722_481));
        assert_eq!(history.attempts(history.failure().unwrap()), Some(3));
    }

    #[test]
    fn without_companions_the_oldest_entry_tells_the_origin() {
        let message = message(vec![entry("b", "rejected", 1, 20), entry("a", "expired", 1, 10)], &[]);
        let history = of(&message).unwrap();
        assert_eq!(history.origin().0.unwrap(), &"to-a");
        assert_eq!(history.origin().1.unwrap(), &"key-a");
    }

    #[test]
    fn an_odd_history_is_no_history_and_is_said_so() {
        let mut nameless = Headers::new();
        nameless.push("reason", Value::Str("rejected".into()));
        let odd = [
            (Value::Str("oops".into()), "x-death is no list"),
            (Value::Array(vec![]), "x-death is empty"),
            (Value::Array(vec![Value::Array(vec![Value::Void])]), "x-death: 1 of 1 entries not read"),
            (Value::Array(vec![Value::Table(nameless)]), "x-death: 1 of 1 entries not read"),
        ];
        for (value, doubt) in odd {
            let mut headers = Headers::new();
            headers.push("x-death", value);
            let message = RawMessage::amqp(AmqpProperties::default(), headers, "");
            assert!(of(&message).is_none());
            assert_eq!(oddity(&message).as_deref(), Some(doubt));
        }
    }

    #[test]
    fn a_long_history_is_read_whole_and_an_absurd_one_in_part() {
        let long = message((0..300).map(|n| entry(&format!("q{n}"), "rejected", 1, n)).collect(), &[]);
        assert_eq!(oddity(&long), None);
        assert_eq!(failed_queue(&long).as_deref(), Some("q0"));

        let absurd = message((0..3000).map(|n| entry(&format!("q{n}-retry"), "expired", 1, n)).collect(), &[]);
        assert_eq!(oddity(&absurd).as_deref(), Some("x-death: 2000 of 3000 entries not read"));
    }
}
