//! Encoding of lapin values that nest too deep to follow on the stack.

use std::collections::btree_map;
use std::slice;

use lapin::types::{AMQPValue, ShortString};

/// A table or array whose entries are being written, and where its length goes once they are.
struct Open<'a> {
    entries: Entries<'a>,
    length_at: usize,
}

enum Entries<'a> {
    Array(slice::Iter<'a, AMQPValue>),
    Table(btree_map::Iter<'a, ShortString, AMQPValue>),
}

/// The value as AMQP bytes, its letter first, with the levels it opens on the heap.
pub(super) fn encode(value: &AMQPValue) -> Vec<u8> {
    let mut out = Vec::new();
    let mut levels: Vec<Open<'_>> = open(&mut out, value).into_iter().collect();
    while let Some(level) = levels.last_mut() {
        let next = match &mut level.entries {
            Entries::Array(values) => values.next(),
            Entries::Table(entries) => entries.next().map(|(name, value)| {
                // Lapin's short strings are no longer than their length byte can say.
                out.push(name.as_str().len() as u8);
                out.extend_from_slice(name.as_str().as_bytes());
                value
            }),
        };
        match next {
            Some(value) => levels.extend(open(&mut out, value)),
            None => {
                let (at, length) = (level.length_at, out.len() - level.length_at - 4);
                out[at..at + 4].copy_from_slice(&(length as u32).to_be_bytes());
                levels.pop();
            }
        }
    }
    out
}

/// Writes a value, or the start of one with entries, which it returns.
fn open<'a>(out: &mut Vec<u8>, value: &'a AMQPValue) -> Option<Open<'a>> {
    out.push(value.get_type().get_id() as u8);
    let entries = match value {
        AMQPValue::FieldArray(array) => Entries::Array(array.as_slice().iter()),
        AMQPValue::FieldTable(table) => Entries::Table(table.inner().iter()),
        flat => {
            content(out, flat);
            return None;
        }
    };
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    Some(Open { entries, length_at })
}

fn content(out: &mut Vec<u8>, value: &AMQPValue) {
    let mut long = |bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        AMQPValue::ShortString(text) => long(text.as_str().as_bytes()),
        AMQPValue::LongString(text) => long(text.as_bytes()),
        AMQPValue::ByteArray(bytes) => long(bytes.as_slice()),
        AMQPValue::Boolean(v) => out.push(u8::from(*v)),
        AMQPValue::ShortShortInt(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::ShortShortUInt(v) => out.push(*v),
        AMQPValue::ShortInt(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::ShortUInt(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::LongInt(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::LongUInt(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::LongLongInt(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::Float(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
        AMQPValue::Double(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
        AMQPValue::Timestamp(v) => out.extend_from_slice(&v.to_be_bytes()),
        AMQPValue::DecimalValue(v) => {
            out.push(v.scale);
            out.extend_from_slice(&v.value.to_be_bytes());
        }
        AMQPValue::Void | AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) => {}
    }
}
