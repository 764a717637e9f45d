//! A dead letter as one row of COPY data.

use std::borrow::Cow;

use super::{copy::RowWriter, json::is_jsonb};
use crate::{
    dead_letter::{DeadLetter, Notes},
    message::{Text, natural, wire},
};

/// The columns [`encode`] writes, in its order.
pub(crate) const COLUMNS: &str = "service_name, event_type, payload, error_message, traceback, status, error_class, source, broker, \
     broker_kind, vhost, dialect, origin_exchange, origin_routing_key, origin_queue, origin_topic, origin_partition, origin_offset, \
     origin_timestamp, consumer, captured_topic, captured_partition, captured_offset, captured_queue, captured_exchange, \
     captured_routing_key, message_key, message_id, correlation_id, trace_id, body, payload_state, headers, wire, failed_at, attempts, \
     replay_of, duplicate_of, capture_session, delivery_tag, notes";
const COLUMN_COUNT: i16 = 41;

/// How much of a letter is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Full,
    /// All but the business payload: nested too deep, too large, a number beyond `numeric`.
    WithoutPayload,
    /// The bytes and where they came from, nothing that could be refused.
    BytesOnly,
    /// Not in the table at all: somebody's constraint refuses even that.
    Quarantine,
}

impl Form {
    /// What to try when this one is refused.
    #[must_use]
    pub fn safer(self) -> Option<Self> {
        match self {
            Self::Full => Some(Self::WithoutPayload),
            Self::WithoutPayload => Some(Self::BytesOnly),
            Self::BytesOnly => Some(Self::Quarantine),
            Self::Quarantine => None,
        }
    }

    /// In `notes` and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "in full",
            Self::WithoutPayload => "without payload",
            Self::BytesOnly => "bytes only",
            Self::Quarantine => "quarantined",
        }
    }
}

/// Appends `letter` as one row. `refused` says why it is not written in full.
pub(crate) fn encode(out: &mut Vec<u8>, letter: &DeadLetter, form: Form, refused: &str) {
    let mut notes = Cow::Borrowed(&letter.reading.notes);
    if form != Form::Full {
        let notes = notes.to_mut();
        notes.set("stored_as", form.name());
        notes.set("refused", refused);
    }
    match form {
        Form::Full | Form::WithoutPayload => described(out, letter, form == Form::Full, &notes),
        Form::BytesOnly | Form::Quarantine => bytes_only(out, letter, &notes),
    }
}

fn described(out: &mut Vec<u8>, letter: &DeadLetter, with_payload: bool, notes_now: &Notes) {
    let (reading, captured, source) = (&letter.reading, &letter.captured, &letter.source);
    let (origin, failure) = (&reading.origin, &reading.failure);
    let mut fix = Fix::default();
    // Only a trace that the column holds unaltered can stand for a header.
    let traceback = failure.traceback.as_deref();
    let exact_traceback = traceback.filter(|t| !t.contains('\0'));

    let mut row = RowWriter::new(out, COLUMN_COUNT);
    row.text(&fix.text("service_name", letter.service_name()));
    row.text(&fix.text("event_type", letter.event_type()));
    if with_payload {
        payload(&mut row, letter);
    } else {
        row.null();
    }
    row.opt_text(fix.opt("error_message", failure.error_message.as_deref()).as_deref());
    row.opt_text(fix.opt("traceback", traceback).as_deref());
    row.text(letter.status.as_str());
    row.opt_text(fix.opt("error_class", failure.error_class.as_deref()).as_deref());
    row.text(&source.name);
    row.text(&source.broker);
    row.text(source.broker_kind);
    row.opt_text(source.vhost.as_deref());
    row.opt_text(reading.dialect);
    row.opt_text(fix.name("origin_exchange", origin.exchange.as_ref()));
    row.opt_text(fix.name("origin_routing_key", origin.routing_key.as_ref()));
    row.opt_text(fix.name("origin_queue", origin.queue.as_ref()));
    row.opt_text(fix.name("origin_topic", origin.topic.as_ref()));
    row.opt_int(origin.partition);
    row.opt_bigint(origin.offset);
    row.opt_timestamp(origin.timestamp);
    row.opt_text(fix.opt("consumer", failure.consumer.as_deref()).as_deref());
    row.opt_text(captured.topic.as_deref());
    row.opt_int(captured.partition);
    row.opt_bigint(captured.offset);
    row.opt_text(captured.queue.as_deref());
    row.opt_text(fix.name("captured_exchange", captured.exchange.as_ref()));
    row.opt_text(fix.name("captured_routing_key", captured.routing_key.as_ref()));
    row.opt_bytes(letter.message.key.as_deref());
    row.opt_text(fix.opt("message_id", letter.ids.message_id.as_deref()).as_deref());
    row.opt_text(fix.opt("correlation_id", letter.ids.correlation_id.as_deref()).as_deref());
    row.opt_text(fix.opt("trace_id", letter.ids.trace_id.as_deref()).as_deref());
    row.opt_bytes(letter.message.body.as_deref());
    row.text(reading.payload_state.as_str());
    row.jsonb(|out| natural::write(out, &letter.message.headers, exact_traceback));
    row.field(|out| wire::encode(out, &letter.message, exact_traceback));
    row.opt_timestamp(failure.failed_at);
    row.opt_int(failure.attempts);
    row.opt_bigint(letter.replay_of);
    row.opt_bigint(letter.duplicate_of);
    row.opt_bigint(letter.session.map(|(session, _)| session));
    row.opt_bigint(letter.session.map(|(_, tag)| tag));
    notes(&mut row, fix.into_notes(notes_now).as_ref());
}

fn bytes_only(out: &mut Vec<u8>, letter: &DeadLetter, notes_now: &Notes) {
    let (captured, source) = (&letter.captured, &letter.source);
    let null = |row: &mut RowWriter<'_>, n: usize| (0..n).for_each(|_| row.null());

    let mut row = RowWriter::new(out, COLUMN_COUNT);
    row.text(source.service.as_deref().filter(|s| !s.is_empty()).unwrap_or("unknown"));
    row.text("unknown");
    null(&mut row, 3); // payload, error_message, traceback
    row.text(letter.status.as_str());
    row.null(); // error_class
    row.text(&source.name);
    row.text(&source.broker);
    row.text(source.broker_kind);
    row.opt_text(source.vhost.as_deref());
    row.opt_text(letter.reading.dialect);
    null(&mut row, 8); // origin and consumer
    row.opt_text(captured.topic.as_deref());
    row.opt_int(captured.partition);
    row.opt_bigint(captured.offset);
    row.opt_text(captured.queue.as_deref());
    row.opt_text(captured.exchange.as_ref().and_then(Text::as_sql));
    row.opt_text(captured.routing_key.as_ref().and_then(Text::as_sql));
    row.opt_bytes(letter.message.key.as_deref());
    null(&mut row, 3); // ids
    row.opt_bytes(letter.message.body.as_deref());
    row.text(letter.reading.payload_state.as_str());
    row.null(); // headers
    row.field(|out| wire::encode(out, &letter.message, None));
    null(&mut row, 2); // failed_at, attempts
    row.opt_bigint(letter.replay_of);
    row.opt_bigint(letter.duplicate_of);
    row.opt_bigint(letter.session.map(|(session, _)| session));
    row.opt_bigint(letter.session.map(|(_, tag)| tag));
    notes(&mut row, notes_now);
}

fn payload(row: &mut RowWriter<'_>, letter: &DeadLetter) {
    match letter.reading.payload.as_ref().or(letter.message.body.as_ref()).filter(|body| is_jsonb(body)) {
        Some(body) => row.jsonb(|out| out.extend_from_slice(body)),
        None => row.null(),
    }
}

fn notes(row: &mut RowWriter<'_>, notes: &Notes) {
    if notes.is_empty() {
        row.null();
    } else {
        row.jsonb(|out| out.extend_from_slice(notes.to_json().replace("\\u0000", "\\u2400").as_bytes()));
    }
}

/// Makes text fit for `text` columns, remembering which columns it had to touch. The exact bytes are in `wire`.
#[derive(Default)]
struct Fix {
    altered: Vec<&'static str>,
    left_out: Vec<&'static str>,
}

impl Fix {
    /// U+0000 becomes U+2400, the picture of it.
    fn text<'a>(&mut self, column: &'static str, text: &'a str) -> Cow<'a, str> {
        if text.contains('\0') {
            self.altered.push(column);
            Cow::Owned(text.replace('\0', "\u{2400}"))
        } else {
            Cow::Borrowed(text)
        }
    }

    fn opt<'a>(&mut self, column: &'static str, text: Option<&'a str>) -> Option<Cow<'a, str>> {
        text.map(|text| self.text(column, text))
    }

    /// A name is used to send things, so it is exact or absent.
    fn name<'a>(&mut self, column: &'static str, name: Option<&'a Text>) -> Option<&'a str> {
        let name = name?;
        let text = name.as_sql();
        if text.is_none() {
            self.left_out.push(column);
        }
        text
    }

    fn into_notes<'n>(self, notes: &'n Notes) -> Cow<'n, Notes> {
        if self.altered.is_empty() && self.left_out.is_empty() {
            return Cow::Borrowed(notes);
        }
        let mut notes = notes.clone();
        for column in self.altered {
            notes.add("altered", column);
        }
        for column in self.left_out {
            notes.add("not_text", column);
        }
        Cow::Owned(notes)
    }
}
