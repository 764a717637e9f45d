//! Properties and headers into bytes.

use super::*;

pub(super) fn properties(out: &mut Vec<u8>, p: &AmqpProperties, headers: &Headers) -> Result<(), EncodeError> {
    // The flags are known once everything is written.
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut flags = HEADERS;
    let mut text = |out: &mut Vec<u8>, flag: u16, name: &'static str, value: &Option<Text>| match value {
        Some(value) => {
            flags |= flag;
            short(out, value.as_bytes()).ok_or(EncodeError::Property { name, length: value.len() })
        }
        None => Ok(()),
    };
    text(out, CONTENT_TYPE, "content_type", &p.content_type)?;
    text(out, CONTENT_ENCODING, "content_encoding", &p.content_encoding)?;
    table(out, headers, 0)?;
    out.extend(p.delivery_mode);
    out.extend(p.priority);
    text(out, CORRELATION_ID, "correlation_id", &p.correlation_id)?;
    text(out, REPLY_TO, "reply_to", &p.reply_to)?;
    text(out, EXPIRATION, "expiration", &p.expiration)?;
    text(out, MESSAGE_ID, "message_id", &p.message_id)?;
    out.extend(p.timestamp.map(u64::to_be_bytes).into_iter().flatten());
    text(out, KIND, "type", &p.kind)?;
    text(out, USER_ID, "user_id", &p.user_id)?;
    text(out, APP_ID, "app_id", &p.app_id)?;
    text(out, CLUSTER_ID, "cluster_id", &p.cluster_id)?;
    for (flag, present) in [
        (DELIVERY_MODE, p.delivery_mode.is_some()),
        (PRIORITY, p.priority.is_some()),
        (TIMESTAMP, p.timestamp.is_some()),
    ] {
        flags |= if present { flag } else { 0 };
    }
    out[start..start + 2].copy_from_slice(&flags.to_be_bytes());
    Ok(())
}

/// `None` when the text is too long.
pub(in crate::amqp) fn short(out: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    out.push(u8::try_from(text.len()).ok()?);
    out.extend_from_slice(text);
    Some(())
}

pub(super) fn table(out: &mut Vec<u8>, headers: &Headers, depth: usize) -> Result<(), EncodeError> {
    sized(out, |out| {
        for (name, value) in headers.iter() {
            short(out, name.as_bytes())
                .ok_or_else(|| EncodeError::HeaderName { name: name.clone(), length: name.len() })?;
            field(out, value, depth)?;
        }
        Ok(())
    })
}

/// Writes a length of four bytes, then the content it counts.
fn sized(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out)?;
    let length = out.len() - start - 4;
    let claim = u32::try_from(length).map_err(|_| EncodeError::TooLong(length))?;
    out[start..start + 4].copy_from_slice(&claim.to_be_bytes());
    Ok(())
}

fn field(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), EncodeError> {
    if depth > DEPTH_MAX {
        return Err(EncodeError::TooDeep);
    }
    match value {
        Value::Void => out.push(b'V'),
        Value::Bool(v) => fixed(out, b't', [u8::from(*v)]),
        Value::I8(v) => fixed(out, b'b', v.to_be_bytes()),
        Value::U8(v) => fixed(out, b'B', [*v]),
        Value::I16(v) => fixed(out, b's', v.to_be_bytes()),
        Value::U16(v) => fixed(out, b'u', v.to_be_bytes()),
        Value::I32(v) => fixed(out, b'I', v.to_be_bytes()),
        Value::U32(v) => fixed(out, b'i', v.to_be_bytes()),
        Value::I64(v) => fixed(out, b'l', v.to_be_bytes()),
        Value::F32(v) => fixed(out, b'f', v.to_bits().to_be_bytes()),
        Value::F64(v) => fixed(out, b'd', v.to_bits().to_be_bytes()),
        Value::Timestamp(v) => fixed(out, b'T', v.to_be_bytes()),
        Value::Decimal { scale, value } => {
            fixed(out, b'D', [*scale]);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Str(text) => long(out, b'S', text.as_bytes())?,
        Value::Bytes(bytes) => long(out, b'x', bytes)?,
        Value::Opaque(encoded) => out.extend_from_slice(encoded),
        Value::Array(values) => {
            out.push(b'A');
            sized(out, |out| values.iter().try_for_each(|value| field(out, value, depth + 1)))?;
        }
        Value::Table(headers) => {
            out.push(b'F');
            table(out, headers, depth + 1)?;
        }
    }
    Ok(())
}

fn fixed<const N: usize>(out: &mut Vec<u8>, letter: u8, content: [u8; N]) {
    out.push(letter);
    out.extend_from_slice(&content);
}

fn long(out: &mut Vec<u8>, letter: u8, bytes: &[u8]) -> Result<(), EncodeError> {
    out.push(letter);
    sized(out, |out| {
        out.extend_from_slice(bytes);
        Ok(())
    })
}
