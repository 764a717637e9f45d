//! What the dialects of Kafka share: numbers in header values, coordinates and exceptions that may be repeated.
//!
//! Writers append, and a record that was dead-lettered twice without being cleaned carries everything twice. The
//! origin is the first value of each, the failure the last.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value as Json};

use super::{java_trace, text};
use crate::{
    dead_letter::{FailureInfo, Notes, Origin},
    message::{RawMessage, RecordTime, Text, Value},
};

/// A number by its content: decimal text, else a big-endian integer of one of these widths.
///
/// Spring writes big-endian integers, all others text, and programs that imitate Spring text under Spring's names.
/// Bytes that read as a decimal text of four or eight digits would be a number that no partition and no offset reaches.
pub(super) fn number(bytes: &[u8], widths: &[usize]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
    text.or_else(|| if widths.contains(&bytes.len()) { big_endian(bytes) } else { None })
}

/// Two's complement.
fn big_endian(bytes: &[u8]) -> Option<i64> {
    let fill = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut padded = [fill; 8];
    let start = padded.len().checked_sub(bytes.len())?;
    padded[start..].copy_from_slice(bytes);
    Some(i64::from_be_bytes(padded))
}

/// The first and the last value of a header. Null counts as absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeated<'a> {
    pub(super) first: Option<&'a [u8]>,
    pub(super) last: Option<&'a [u8]>,
}

impl<'a> Repeated<'a> {
    pub(super) fn add(&mut self, value: &'a Value) {
        if let Some(bytes) = value.as_bytes() {
            self.first = self.first.or(Some(bytes));
            self.last = Some(bytes);
        }
    }
}

/// Where a record was read, each time that it failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coordinates<'a> {
    pub(super) topic: Repeated<'a>,
    partition: Repeated<'a>,
    offset: Repeated<'a>,
    timestamp: Repeated<'a>,
}

impl<'a> Coordinates<'a> {
    /// Takes a header by the part of its name behind the prefix. Says whether it was one of these.
    pub(super) fn take(&mut self, field: &[u8], value: &'a Value) -> bool {
        let repeated = match field {
            b"topic" => &mut self.topic,
            b"partition" => &mut self.partition,
            b"offset" => &mut self.offset,
            b"timestamp" => &mut self.timestamp,
            _ => return false,
        };
        repeated.add(value);
        true
    }

    /// The oldest. What cannot be true stays unknown, and is noted under the name of its header.
    pub(super) fn origin(&self, prefix: &str, notes: &mut Notes) -> Origin {
        let mut known = |field: &str, found: Option<Option<i64>>| {
            if found == Some(None) {
                notes.add("doubts", format!("{prefix}{field} is no number that it can be"));
            }
            found.flatten()
        };
        let partition = known("partition", self.partition.first.map(|bytes| partition(bytes).map(i64::from)));
        let offset = known("offset", self.offset.first.map(offset));
        let millis = known("timestamp", self.timestamp.first.map(millis));
        Origin {
            topic: self.topic.first.filter(|topic| !topic.is_empty()).map(Text::from),
            partition: partition.and_then(|partition| i32::try_from(partition).ok()),
            offset,
            timestamp: millis.and_then(moment),
            ..Origin::default()
        }
    }

    /// The newest partition.
    pub(super) fn last_partition(&self) -> Option<i32> {
        self.partition.last.and_then(partition)
    }

    /// Notes the newest where it is not `origin`: there it failed, as far as it tells.
    pub(super) fn note_last(&self, origin: &Origin, notes: &mut Notes) {
        let mut last = Map::new();
        let mut differs = false;
        if let Some(topic) = self.topic.last {
            differs |= origin.topic.as_ref().is_none_or(|first| first.as_bytes() != topic);
            last.insert("topic".to_owned(), text::json(topic));
        }
        if let Some(partition) = self.last_partition() {
            differs |= origin.partition != Some(partition);
            last.insert("partition".to_owned(), partition.into());
        }
        if let Some(offset) = self.offset.last.and_then(offset) {
            differs |= origin.offset != Some(offset);
            last.insert("offset".to_owned(), offset.into());
        }
        if differs {
            notes.set("last_origin", Json::Object(last));
        }
    }
}

fn partition(bytes: &[u8]) -> Option<i32> {
    number(bytes, &[4]).and_then(|number| i32::try_from(number).ok()).filter(|number| *number >= 0)
}

fn offset(bytes: &[u8]) -> Option<i64> {
    number(bytes, &[8]).filter(|number| *number >= 0)
}

/// Minus one is Kafka's word for none.
fn millis(bytes: &[u8]) -> Option<i64> {
    number(bytes, &[8]).filter(|millis| *millis == -1 || moment(*millis).is_some())
}

/// The end of the year 9999: what lies behind is not in milliseconds.
const MILLIS_MAX: i64 = 253_402_300_799_999;

fn moment(millis: i64) -> Option<DateTime<Utc>> {
    (0..=MILLIS_MAX).contains(&millis).then(|| DateTime::from_timestamp_millis(millis)).flatten()
}

/// When the letter was written, for a framework that lets the producer set the time.
pub(super) fn written_at(message: &RawMessage) -> Option<DateTime<Utc>> {
    moment(message.properties.kafka()?.timestamp?.millis())
}

/// For a framework that writes the letter with the time of the original: that, unless the broker has put its own there,
/// and then the time of the failure.
pub(super) fn copied_time(message: &RawMessage) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    match message.properties.kafka().and_then(|properties| properties.timestamp) {
        Some(RecordTime::Created(millis)) => (moment(millis), None),
        Some(RecordTime::Appended(millis)) => (None, moment(millis)),
        None => (None, None),
    }
}

/// An exception in headers, the newest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exception<'a> {
    /// The class that was thrown, mostly a framework's wrapper.
    pub(super) class: Option<&'a [u8]>,
    /// The class behind it that the framework thinks more of.
    pub(super) cause: Option<&'a [u8]>,
    pub(super) message: Option<&'a [u8]>,
    pub(super) trace: Option<&'a [u8]>,
}

impl Exception<'_> {
    pub(super) fn is_some(&self) -> bool {
        [self.class, self.cause, self.message, self.trace].iter().any(Option::is_some)
    }

    /// The innermost cause is only in the stack trace; headers name an outer one.
    pub(super) fn failure(&self, notes: &mut Notes) -> FailureInfo {
        let traceback = self.trace.map(|trace| text::storable(trace, "traceback", notes));
        let innermost = traceback.as_deref().and_then(java_trace::innermost_class).map(str::to_owned);
        let named = self.cause.or(self.class).filter(|class| !class.is_empty());
        FailureInfo {
            error_class: innermost.or_else(|| named.map(|class| text::storable(class, "error_class", notes))),
            error_message: self.message.map(|said| text::storable(said, "error_message", notes)),
            traceback,
            ..FailureInfo::default()
        }
    }
}

#[cfg(test)]
mod tests;
