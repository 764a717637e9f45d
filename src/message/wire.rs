//! A message as bytes and back: column `wire`, everything needed to publish the same message again.
//!
//! Version 1: `01`, then the kind of properties, the properties, the headers. Integers that count are LEB128;
//! strings are length and bytes; a value is RabbitMQ's letter for its type and its content. Body and key are
//! columns of their own and not repeated here, and a value equal to the `traceback` column is stored as a
//! reference with length and CRC, so that a changed column is noticed and never sent as if it were the original.

use super::{AmqpProperties, DEPTH_MAX, Headers, KafkaProperties, Properties, RawMessage, RecordTime, Text, Value};

const VERSION: u8 = 1;
const KIND_AMQP: u8 = b'a';
const KIND_KAFKA: u8 = b'k';
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
            kafka_properties(out, properties);
        }
    }
    Encoder { out, traceback }.headers(&message.headers);
}

/// Decodes what [`encode`] wrote. Body and key come from their own columns and are left empty here.
pub fn decode(bytes: &[u8], traceback: Option<&str>) -> Result<RawMessage, WireError> {
    let mut reader = Decoder { rest: bytes, traceback };
    let version = reader.byte("version")?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let properties = match reader.byte("kind")? {
        KIND_AMQP => Properties::Amqp(Box::new(reader.amqp_properties()?)),
        KIND_KAFKA => Properties::Kafka(reader.kafka_properties()?),
        byte => return Err(WireError::Unknown { what: "kind of message", byte }),
    };
    let headers = reader.headers(0)?;
    if !reader.rest.is_empty() {
        return Err(WireError::Trailing(reader.rest.len()));
    }
    Ok(RawMessage { body: None, key: None, headers, properties })
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

/// A bit a property; bit 1 says whose clock the timestamp is of.
fn kafka_properties(out: &mut Vec<u8>, p: &KafkaProperties) {
    let by_broker = p.timestamp.is_some_and(|time| time.by_broker);
    out.push(u8::from(p.timestamp.is_some()) | u8::from(by_broker) << 1 | u8::from(p.leader_epoch.is_some()) << 2);
    if let Some(time) = p.timestamp {
        out.extend_from_slice(&time.millis.to_be_bytes());
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

struct Decoder<'a> {
    rest: &'a [u8],
    traceback: Option<&'a str>,
}

impl<'a> Decoder<'a> {
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(WireError::Truncated(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        self.take(N, what)?.try_into().map_err(|_| WireError::Truncated(what))
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.fixed::<1>(what)?[0])
    }

    fn count(&mut self, what: &'static str) -> Result<usize, WireError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(n).map_err(|_| WireError::Truncated(what));
            }
        }
        Err(WireError::Truncated(what))
    }

    fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], WireError> {
        let n = self.count(what)?;
        self.take(n, what)
    }

    fn amqp_properties(&mut self) -> Result<AmqpProperties, WireError> {
        let present = u16::from_be_bytes(self.fixed("property flags")?);
        let mut p = AmqpProperties::default();
        let texts = [
            &mut p.content_type,
            &mut p.content_encoding,
            &mut p.correlation_id,
            &mut p.reply_to,
            &mut p.expiration,
            &mut p.message_id,
            &mut p.kind,
            &mut p.user_id,
            &mut p.app_id,
            &mut p.cluster_id,
        ];
        for (bit, text) in texts.into_iter().enumerate() {
            if present & (1 << bit) != 0 {
                *text = Some(Text::from(self.bytes("property")?));
            }
        }
        if present & (1 << 10) != 0 {
            p.delivery_mode = Some(self.byte("delivery mode")?);
        }
        if present & (1 << 11) != 0 {
            p.priority = Some(self.byte("priority")?);
        }
        if present & (1 << 12) != 0 {
            p.timestamp = Some(u64::from_be_bytes(self.fixed("timestamp")?));
        }
        Ok(p)
    }

    fn kafka_properties(&mut self) -> Result<KafkaProperties, WireError> {
        let present = self.byte("property flags")?;
        let mut p = KafkaProperties::default();
        if present & 1 != 0 {
            let millis = i64::from_be_bytes(self.fixed("timestamp")?);
            p.timestamp = Some(RecordTime { millis, by_broker: present & 2 != 0 });
        }
        if present & 4 != 0 {
            p.leader_epoch = Some(i32::from_be_bytes(self.fixed("leader epoch")?));
        }
        Ok(p)
    }

    fn headers(&mut self, depth: usize) -> Result<Headers, WireError> {
        let n = self.count("header count")?;
        // Grown as read: a count is a claim, not a promise.
        let mut headers = Headers::with_capacity(n.min(64));
        for _ in 0..n {
            let name = Text::from(self.bytes("header name")?);
            headers.push(name, self.value(depth)?);
        }
        Ok(headers)
    }

    fn value(&mut self, depth: usize) -> Result<Value, WireError> {
        if depth > DEPTH_MAX {
            return Err(WireError::TooDeep);
        }
        const WHAT: &str = "header value";
        Ok(match self.byte("value letter")? {
            b'V' => Value::Void,
            b't' => Value::Bool(self.byte(WHAT)? != 0),
            b'b' => Value::I8(i8::from_be_bytes(self.fixed(WHAT)?)),
            b'B' => Value::U8(self.byte(WHAT)?),
            b's' => Value::I16(i16::from_be_bytes(self.fixed(WHAT)?)),
            b'u' => Value::U16(u16::from_be_bytes(self.fixed(WHAT)?)),
            b'I' => Value::I32(i32::from_be_bytes(self.fixed(WHAT)?)),
            b'i' => Value::U32(u32::from_be_bytes(self.fixed(WHAT)?)),
            b'l' => Value::I64(i64::from_be_bytes(self.fixed(WHAT)?)),
            b'f' => Value::F32(f32::from_bits(u32::from_be_bytes(self.fixed(WHAT)?))),
            b'd' => Value::F64(f64::from_bits(u64::from_be_bytes(self.fixed(WHAT)?))),
            b'T' => Value::Timestamp(u64::from_be_bytes(self.fixed(WHAT)?)),
            b'D' => Value::Decimal { scale: self.byte(WHAT)?, value: u32::from_be_bytes(self.fixed(WHAT)?) },
            b'S' => Value::Str(Text::from(self.bytes(WHAT)?)),
            b'x' => Value::Bytes(self.bytes(WHAT)?.to_vec()),
            b'?' => Value::Opaque(self.bytes(WHAT)?.to_vec()),
            b'R' => Value::Str(Text::from(self.referred()?)),
            b'r' => Value::Bytes(self.referred()?.to_vec()),
            b'A' => {
                let n = self.count("array length")?;
                let mut values = Vec::with_capacity(n.min(64));
                for _ in 0..n {
                    values.push(self.value(depth + 1)?);
                }
                Value::Array(values)
            }
            b'F' => Value::Table(self.headers(depth + 1)?),
            byte => return Err(WireError::Unknown { what: "value letter", byte }),
        })
    }

    fn referred(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.count("reference")?;
        let crc = u32::from_be_bytes(self.fixed("reference")?);
        self.traceback
            .map(str::as_bytes)
            .filter(|raw| raw.len() == length && crc32fast::hash(raw) == crc)
            .ok_or(WireError::TracebackChanged)
    }
}

#[cfg(test)]
mod tests;
