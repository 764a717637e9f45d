//! Messages to send.

use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Text, Value};

/// A plain message.
pub(crate) fn message(body: impl Into<bytes::Bytes>) -> RawMessage {
    RawMessage::amqp(AmqpProperties { delivery_mode: Some(2), ..AmqpProperties::default() }, Headers::new(), body)
}

/// Numbered JSON bodies, all different.
pub(crate) fn numbered(from: usize, count: usize) -> Vec<RawMessage> {
    (from..from + count).map(|n| message(format!(r#"{{"order": {n}, "text": "number {n}"}}"#))).collect()
}

pub(crate) fn bodies(messages: &[RawMessage]) -> impl Iterator<Item = &[u8]> {
    messages.iter().map(|message| message.body.as_deref().unwrap_or_default())
}

pub(crate) fn headers<const N: usize>(entries: [(&str, Value); N]) -> Headers {
    entries.into_iter().map(|(name, value)| (Text::from(name), value)).collect()
}

pub(crate) fn text(text: &str) -> Value {
    Value::Str(Text::from(text))
}

/// The same headers in the order of their names, which is the one lapin gives them.
pub(crate) fn sorted(headers: &Headers) -> Headers {
    let mut entries: Vec<_> = headers.iter().cloned().collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().map(|(name, value)| (name, sorted_value(value))).collect()
}

/// Without what a broker counts: a quorum queue adds it to whatever it gives out again.
pub(crate) fn without_counts(headers: &Headers) -> Headers {
    let mut headers = headers.clone();
    headers.retain(|name, _| !(name == "x-delivery-count" || name == "x-acquired-count"));
    headers
}

fn sorted_value(value: Value) -> Value {
    match value {
        Value::Table(table) => Value::Table(sorted(&table)),
        Value::Array(values) => Value::Array(values.into_iter().map(sorted_value).collect()),
        other => other,
    }
}

/// Bytes that no compression shrinks and no text holds.
pub(crate) fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Text that hardly compresses, without control characters.
pub(crate) fn random_text(length: usize, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| char::from(random.u8(33..127))).collect()
}
