//! A message to bytes.

use super::{APPENDED, CREATED, KIND_AMQP, KIND_KAFKA, LEADER_EPOCH, VERSION, refers};
use crate::message::{AmqpProperties, Headers, KafkaProperties, Properties, RawMessage, RecordTime, Value};

/// Encodes properties and headers of `message`. `traceback` is the text column that values are referred to.
pub fn encode(out: &mut Vec<u8>, message: &RawMessage, traceback: Option<&str>) {
    out.push(VERSION);
    match &message.properties {
        Properties::Amqp(properties) => {
            out.push(KIND_AMQP);
            amqp_properties(out, properties);
        }
        Properties::Kafka(properties) => {
            out.push(KIND_KAFKA);
            kafka_properties(out, *properties);
        }
    }
    Encoder { out, traceback }.headers(&message.headers);
}

fn count(out: &mut Vec<u8>, n: usize) {
    let mut n = n as u64;
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn bytes(out: &mut Vec<u8>, raw: &[u8]) {
    count(out, raw.len());
    out.extend_from_slice(raw);
}

/// A bit a property, in the order of the fields below; then the values of those present.
fn amqp_properties(out: &mut Vec<u8>, p: &AmqpProperties) {
    let texts = [
        &p.content_type,
        &p.content_encoding,
        &p.correlation_id,
        &p.reply_to,
        &p.expiration,
        &p.message_id,
        &p.kind,
        &p.user_id,
        &p.app_id,
        &p.cluster_id,
    ];
    let mut present = 0u16;
    for (bit, text) in texts.iter().enumerate() {
        present |= u16::from(text.is_some()) << bit;
    }
    present |= u16::from(p.delivery_mode.is_some()) << 10;
    present |= u16::from(p.priority.is_some()) << 11;
    present |= u16::from(p.timestamp.is_some()) << 12;
    out.extend_from_slice(&present.to_be_bytes());
    for text in texts.into_iter().flatten() {
        bytes(out, text.as_bytes());
    }
    out.extend(p.delivery_mode);
    out.extend(p.priority);
    if let Some(timestamp) = p.timestamp {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
}

/// What is there, then the timestamp, then the leader epoch.
fn kafka_properties(out: &mut Vec<u8>, p: KafkaProperties) {
    let time = match p.timestamp {
        None => 0,
        Some(RecordTime::Created(_)) => CREATED,
        Some(RecordTime::Appended(_)) => APPENDED,
    };
    out.push(time | p.leader_epoch.map_or(0, |_| LEADER_EPOCH));
    if let Some(timestamp) = p.timestamp {
        out.extend_from_slice(&timestamp.millis().to_be_bytes());
    }
    if let Some(epoch) = p.leader_epoch {
        out.extend_from_slice(&epoch.to_be_bytes());
    }
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    traceback: Option<&'a str>,
}

impl Encoder<'_> {
    fn headers(&mut self, headers: &Headers) {
        count(self.out, headers.len());
        for (name, value) in headers.iter() {
            bytes(self.out, name.as_bytes());
            self.value(value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Void => self.out.push(b'V'),
            Value::Bool(v) => self.fixed(b't', [u8::from(*v)]),
            Value::I8(v) => self.fixed(b'b', v.to_be_bytes()),
            Value::U8(v) => self.fixed(b'B', [*v]),
            Value::I16(v) => self.fixed(b's', v.to_be_bytes()),
            Value::U16(v) => self.fixed(b'u', v.to_be_bytes()),
            Value::I32(v) => self.fixed(b'I', v.to_be_bytes()),
            Value::U32(v) => self.fixed(b'i', v.to_be_bytes()),
            Value::I64(v) => self.fixed(b'l', v.to_be_bytes()),
            Value::F32(v) => self.fixed(b'f', v.to_bits().to_be_bytes()),
            Value::F64(v) => self.fixed(b'd', v.to_bits().to_be_bytes()),
            Value::Timestamp(v) => self.fixed(b'T', v.to_be_bytes()),
            Value::Decimal { scale, value } => {
                self.fixed(b'D', [*scale]);
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            Value::Str(text) => self.text(b'S', b'R', text.as_bytes()),
            Value::Bytes(raw) => self.text(b'x', b'r', raw),
            Value::Opaque(raw) => self.text(b'?', b'?', raw),
            Value::Array(values) => {
                self.out.push(b'A');
                count(self.out, values.len());
                for value in values {
                    self.value(value);
                }
            }
            Value::Table(table) => {
                self.out.push(b'F');
                self.headers(table);
            }
        }
    }

    fn fixed<const N: usize>(&mut self, letter: u8, content: [u8; N]) {
        self.out.push(letter);
        self.out.extend_from_slice(&content);
    }

    /// `R` and `r` mark a string or byte value that the traceback column holds.
    fn text(&mut self, letter: u8, reference: u8, raw: &[u8]) {
        if letter != reference && self.traceback.is_some_and(|t| refers(raw, t)) {
            self.out.push(reference);
            count(self.out, raw.len());
            self.out.extend_from_slice(&crc32fast::hash(raw).to_be_bytes());
        } else {
            self.out.push(letter);
            bytes(self.out, raw);
        }
    }
}
