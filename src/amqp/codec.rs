//! The basic property list and field tables of AMQP 0-9-1 between bytes and [`crate::message`], byte for byte.
//!
//! Reading never fails: a peer's bytes are input, and a message is worth more than its manners. What cannot be
//! taken apart is kept as [`Value::Opaque`], and writing that splices the same bytes back in. Bytes come out as
//! they went in but for two spellings that mean the same: `L` is written `l`, and any true byte is written 1.

mod read;
mod write;

use std::fmt;

use crate::message::{AmqpProperties, DEPTH_MAX, Headers, Text, Value};

pub(in crate::amqp) use read::Reader;
pub(in crate::amqp) use write::short as write_short;

/// AMQP's limit for names and properties: their length is one byte.
pub const SHORT_BYTES_MAX: usize = 255;

/// Why a message cannot be written as AMQP 0-9-1.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EncodeError {
    #[error("header name {} is {length} bytes long, the most is {SHORT_BYTES_MAX}", Start(name))]
    HeaderName { name: Text, length: usize },
    #[error("{name} is {length} bytes long, the most is {SHORT_BYTES_MAX}")]
    Property { name: &'static str, length: usize },
    #[error("a header value or table is {0} bytes long, more than AMQP can say")]
    TooLong(usize),
    #[error("header values nest deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// Enough of a long name to recognise it.
struct Start<'a>(&'a Text);

impl fmt::Display for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_bytes();
        write!(f, "\"{}…\"", bytes[..bytes.len().min(48)].escape_ascii())
    }
}

/// Reads a property list: the part of a content header behind the body size.
///
/// A list that breaks off keeps what was read; the unread rest becomes a header with an empty name.
#[must_use]
pub fn decode_properties(bytes: &[u8]) -> (AmqpProperties, Headers) {
    let mut reader = Reader::new(bytes);
    let (mut properties, mut headers) = (AmqpProperties::default(), Headers::new());
    if reader.properties(&mut properties, &mut headers).is_none() && !reader.rest().is_empty() {
        headers.push(Text::default(), Value::Opaque(reader.rest().to_vec()));
    }
    (properties, headers)
}

/// Reads the entries of a field table, without the length in front of them.
///
/// A value that cannot be read is kept with all that follows it in its table, for nothing says where it ends. A
/// name that breaks off is kept as the value of an empty name.
#[must_use]
pub fn decode_table(entries: &[u8]) -> Headers {
    Reader::new(entries).table(0)
}

/// Appends a property list to `out`, or nothing when it refuses.
pub fn encode_properties(out: &mut Vec<u8>, properties: &AmqpProperties, headers: &Headers) -> Result<(), EncodeError> {
    all_or_nothing(out, |out| write::properties(out, properties, headers))
}

/// Appends a field table, its length first, to `out`, or nothing when it refuses.
pub fn encode_table(out: &mut Vec<u8>, headers: &Headers) -> Result<(), EncodeError> {
    all_or_nothing(out, |out| write::table(out, headers, 0))
}

fn all_or_nothing(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    write(out).inspect_err(|_| out.truncate(start))
}

// The bits of the property flags, in the order in which the properties follow.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
const CORRELATION_ID: u16 = 1 << 10;
const REPLY_TO: u16 = 1 << 9;
const EXPIRATION: u16 = 1 << 8;
const MESSAGE_ID: u16 = 1 << 7;
const TIMESTAMP: u16 = 1 << 6;
const KIND: u16 = 1 << 5;
const USER_ID: u16 = 1 << 4;
const APP_ID: u16 = 1 << 3;
const CLUSTER_ID: u16 = 1 << 2;
/// Another word of flags follows. No basic property needs one.
const MORE_FLAGS: u16 = 1;

#[cfg(test)]
mod tests;
