//! RabbitMQ's own dead-lettering: `x-death`. It knows where and on what ground, never why.

use super::{
    Dialect,
    deaths::{self, History},
    note_unknown, text,
};
use crate::{
    dead_letter::{CapturedFrom, FailureInfo, Notes, Origin, Reading},
    message::{RawMessage, Text},
};

#[derive(Debug)]
pub(super) struct XDeath;

impl Dialect for XDeath {
    fn name(&self) -> &'static str {
        "rabbitmq-native"
    }

    fn read(&self, message: &RawMessage, _captured: &CapturedFrom) -> Option<Reading> {
        reading(message)
    }

    /// Nothing: what the broker wrote is stripped from every message.
    fn freshen(&self, _message: &mut RawMessage) {}
}

const COMPANIONS: [&str; 6] = [
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
];

/// What the broker says of a message. The start for frameworks that ride on its dead-lettering, which know
/// the consumer and the attempts better.
pub(super) fn reading(message: &RawMessage) -> Option<Reading> {
    let history = deaths::of(message)?;
    let mut notes = Notes::default();
    note_unknown(message, &["x-first-death-", "x-last-death-"], &COMPANIONS, &mut notes);

    let (origin, failure) = (origin(&history, &mut notes), failure(&history, &mut notes));
    Some(Reading { origin, failure, notes, ..Reading::default() })
}

fn origin(history: &History<'_>, notes: &mut Notes) -> Origin {
    let (exchange, routing_key, copies) = history.origin();
    // The broker keeps CC keys only here once the routing key was replaced, and a replay goes without them.
    for key in copies.iter().filter_map(|key| key.as_bytes()) {
        notes.add("cc", text::json(key));
    }
    Origin {
        exchange: exchange.cloned(),
        routing_key: routing_key.cloned(),
        queue: history.failure().map(|death| death.queue.clone()),
        ..Origin::default()
    }
}

fn failure(history: &History<'_>, notes: &mut Notes) -> FailureInfo {
    let Some(death) = history.failure() else {
        notes.add("doubts", "died only in delay queues; where it failed is not known");
        let reason = history.newest().map(|death| death.reason_text);
        return FailureInfo { error_message: reason.map(|reason| said(reason, notes)), ..FailureInfo::default() };
    };
    FailureInfo {
        consumer: Some(text::storable(death.queue.as_bytes(), "consumer", notes)),
        error_message: Some(said(death.reason_text, notes)),
        attempts: history.attempts(death),
        failed_at: death.failed_at(),
        ..FailureInfo::default()
    }
}

fn said(reason: &Text, notes: &mut Notes) -> String {
    text::storable(reason.as_bytes(), "error_message", notes)
}
