//! Bytes to a message.

use super::{APPENDED, CREATED, KIND_AMQP, KIND_KAFKA, LEADER_EPOCH, VERSION, WireError};
use crate::message::{
    AmqpProperties, DEPTH_MAX, Headers, KafkaProperties, Properties, RawMessage, RecordTime, Text, Value,
};

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
        let present = self.byte("what the record has")?;
        let mut millis = || Ok(i64::from_be_bytes(self.fixed("timestamp")?));
        let timestamp = match present & !LEADER_EPOCH {
            0 => None,
            CREATED => Some(RecordTime::Created(millis()?)),
            APPENDED => Some(RecordTime::Appended(millis()?)),
            byte => return Err(WireError::Unknown { what: "part of a record", byte }),
        };
        let has_epoch = present & LEADER_EPOCH != 0;
        let leader_epoch = has_epoch.then(|| self.fixed("leader epoch").map(i32::from_be_bytes)).transpose()?;
        Ok(KafkaProperties { timestamp, leader_epoch })
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
