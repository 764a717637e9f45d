//! A message as bytes and back: column `wire`, everything needed to publish the same message again.
//!
//! Version 1: `01`, then the kind of properties, the properties, the headers. Integers that count are LEB128;
//! strings are length and bytes; a value is RabbitMQ's letter for its type and its content. Body and key are
//! columns of their own and not repeated here, and a value equal to the `traceback` column is stored as a
//! reference with length and CRC, so that a changed column is noticed and never sent as if it were the original.

use super::{AmqpProperties, DEPTH_MAX, Headers, Properties, RawMessage, Text, Value};

const VERSION: u8 = 1;
const KIND_AMQP: u8 = b'a';
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Text> {
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Text::from)
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Void),
            any::<bool>().prop_map(Value::Bool),
            any::<i8>().prop_map(Value::I8),
            any::<u8>().prop_map(Value::U8),
            any::<i16>().prop_map(Value::I16),
            any::<u16>().prop_map(Value::U16),
            any::<i32>().prop_map(Value::I32),
            any::<u32>().prop_map(Value::U32),
            any::<i64>().prop_map(Value::I64),
            // Not NaN, which is not equal to itself; its bits are a case of their own below.
            any::<f32>().prop_filter("comparable", |v| !v.is_nan()).prop_map(Value::F32),
            any::<f64>().prop_filter("comparable", |v| !v.is_nan()).prop_map(Value::F64),
            (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Value::Decimal { scale, value }),
            text().prop_map(Value::Str),
            prop::collection::vec(any::<u8>(), 0..100).prop_map(Value::Bytes),
            prop::collection::vec(any::<u8>(), 0..100).prop_map(Value::Opaque),
            any::<u64>().prop_map(Value::Timestamp),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec((text(), inner), 0..6).prop_map(|h| Value::Table(h.into_iter().collect())),
            ]
        })
    }

    fn properties() -> impl Strategy<Value = AmqpProperties> {
        let texts = prop::array::uniform10(prop::option::of(text()));
        (texts, any::<Option<u8>>(), any::<Option<u8>>(), any::<Option<u64>>()).prop_map(
            |(texts, delivery_mode, priority, timestamp)| {
                let [
                    content_type,
                    content_encoding,
                    correlation_id,
                    reply_to,
                    expiration,
                    message_id,
                    kind,
                    user_id,
                    app_id,
                    cluster_id,
                ] = texts;
                AmqpProperties {
                    content_type,
                    content_encoding,
                    delivery_mode,
                    priority,
                    correlation_id,
                    reply_to,
                    expiration,
                    message_id,
                    timestamp,
                    kind,
                    user_id,
                    app_id,
                    cluster_id,
                }
            },
        )
    }

    fn message() -> impl Strategy<Value = RawMessage> {
        (properties(), prop::collection::vec((text(), value()), 0..12)).prop_map(|(properties, headers)| RawMessage {
            body: None,
            key: None,
            headers: headers.into_iter().collect(),
            properties: Properties::Amqp(Box::new(properties)),
        })
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(message in message(), trace in prop::option::of("[a-z\\n]{0,200}")) {
            let mut message = message;
            if let Some(trace) = &trace {
                message.headers.push("trace", Value::Str(trace.as_str().into()));
                message.headers.push("trace", Value::Bytes(trace.clone().into_bytes()));
            }
            let mut bytes = Vec::new();
            encode(&mut bytes, &message, trace.as_deref());
            prop_assert_eq!(decode(&bytes, trace.as_deref()).expect("own bytes decode"), message);
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut versioned = vec![VERSION, KIND_AMQP];
            versioned.extend_from_slice(&bytes);
            let _ = decode(&bytes, None);
            let _ = decode(&versioned, Some("trace"));
        }
    }

    #[test]
    fn nan_keeps_its_bits() {
        let headers: Headers = [("n".into(), Value::F64(f64::from_bits(0x7ff8_0000_dead_beef)))].into_iter().collect();
        let mut bytes = Vec::new();
        encode(&mut bytes, &RawMessage::amqp(AmqpProperties::default(), headers, ""), None);
        let decoded = decode(&bytes, None).expect("decodes");
        let Some(Value::F64(v)) = decoded.headers.get("n") else { panic!("a double") };
        assert_eq!(v.to_bits(), 0x7ff8_0000_dead_beef);
    }

    #[test]
    fn a_trace_is_stored_once_and_a_changed_column_is_noticed() {
        let trace = "java.lang.IllegalStateException\n\tat a.B.c(B.java:1)\n".repeat(20);
        let headers: Headers = [("trace".into(), Value::Str(trace.as_str().into()))].into_iter().collect();
        let mut bytes = Vec::new();
        encode(&mut bytes, &RawMessage::amqp(AmqpProperties::default(), headers, ""), Some(&trace));
        assert!(bytes.len() < 32, "the trace is not repeated: {} bytes", bytes.len());
        assert_eq!(decode(&bytes, Some("something else")), Err(WireError::TracebackChanged));
        assert_eq!(decode(&bytes, None), Err(WireError::TracebackChanged));
    }

    #[test]
    fn a_newer_version_is_named() {
        assert_eq!(decode(&[9, 0], None), Err(WireError::Version(9)));
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused_not_followed() {
        let mut bytes = vec![VERSION, KIND_AMQP, 0, 0, 1, 0];
        bytes.extend(std::iter::repeat_n([b'A', 1], 100_000).flatten());
        assert_eq!(decode(&bytes, None), Err(WireError::TooDeep));
    }
}
