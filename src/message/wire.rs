//! A message as bytes and back: column `wire`, everything needed to publish the same message again.
//!
//! Version 1: `01`, then the kind of properties, the properties, the headers. Integers that count are LEB128;
//! strings are length and bytes; a value is RabbitMQ's letter for its type and its content. Body and key are
//! columns of their own and not repeated here, and a value equal to the `traceback` column is stored as a
//! reference with length and CRC, so that a changed column is noticed and never sent as if it were the original.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use super::DEPTH_MAX;

pub use decode::decode;
pub use encode::encode;

const VERSION: u8 = 1;
const KIND_AMQP: u8 = b'a';
const KIND_KAFKA: u8 = b'k';
/// Bits of the first byte of a Kafka record's properties, in the order of what follows it.
const CREATED: u8 = 1;
const APPENDED: u8 = 2;
const LEADER_EPOCH: u8 = 4;
/// Below this a reference would not be shorter than the value by enough to matter.
const REFER_BYTES_MIN: usize = 64;

/// Why stored bytes are not a message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("stored by a newer version of dlo (wire version {0}, known: {VERSION})")]
    Version(u8),
    #[error("wire bytes end early at {0}")]
    Truncated(&'static str),
    #[error("wire bytes hold an unknown {what} {byte:#04x}")]
    Unknown { what: &'static str, byte: u8 },
    #[error("a header refers to the traceback column, which is not what it was when the message was captured")]
    TracebackChanged,
    #[error("{0} bytes are left over behind the message")]
    Trailing(usize),
    #[error("values nest deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// Whether `raw` is stored as a reference to `traceback`.
pub(super) fn refers(raw: &[u8], traceback: &str) -> bool {
    raw.len() >= REFER_BYTES_MIN && raw == traceback.as_bytes()
}
