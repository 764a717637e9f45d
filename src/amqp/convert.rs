//! Messages between lapin's types and ours.
//!
//! Lapin lends its strings and never gives them away, so reading copies each once. Its tables are sorted by name
//! and hold a name once: of headers whose name repeats on the wire only the last arrives here. Its short strings
//! are UTF-8, so what is not cannot arrive, and cannot leave: see [`to_lapin`].

mod deep;

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable, LongString, ShortString};

use crate::message::{AmqpProperties, DEPTH_MAX, Headers, RawMessage, Text, Value};

/// Properties and headers of a message that lapin delivered. Takes no more stack for deep nesting than for shallow.
#[must_use]
pub fn from_lapin(properties: &BasicProperties) -> (AmqpProperties, Headers) {
    let headers = properties.headers().as_ref().map_or_else(Headers::new, |table| from_table(table, 0));
    let text = |text: &Option<ShortString>| text.as_ref().map(|text| Text::from(text.as_str()));
    let properties = AmqpProperties {
        content_type: text(properties.content_type()),
        content_encoding: text(properties.content_encoding()),
        delivery_mode: *properties.delivery_mode(),
        priority: *properties.priority(),
        correlation_id: text(properties.correlation_id()),
        reply_to: text(properties.reply_to()),
        expiration: text(properties.expiration()),
        message_id: text(properties.message_id()),
        timestamp: *properties.timestamp(),
        kind: text(properties.kind()),
        user_id: text(properties.user_id()),
        app_id: text(properties.app_id()),
        cluster_id: text(properties.cluster_id()),
    };
    (properties, headers)
}

/// The exchange or routing key of a delivery, moved.
#[must_use]
pub fn text(short: ShortString) -> Text {
    Text::from(String::from(short))
}

fn from_table(table: &FieldTable, depth: usize) -> Headers {
    table.into_iter().map(|(name, value)| (Text::from(name.as_str()), from_value(value, depth))).collect()
}

fn from_value(value: &AMQPValue, depth: usize) -> Value {
    match value {
        AMQPValue::Void => Value::Void,
        AMQPValue::Boolean(v) => Value::Bool(*v),
        AMQPValue::ShortShortInt(v) => Value::I8(*v),
        AMQPValue::ShortShortUInt(v) => Value::U8(*v),
        AMQPValue::ShortInt(v) => Value::I16(*v),
        AMQPValue::ShortUInt(v) => Value::U16(*v),
        AMQPValue::LongInt(v) => Value::I32(*v),
        AMQPValue::LongUInt(v) => Value::U32(*v),
        AMQPValue::LongLongInt(v) => Value::I64(*v),
        AMQPValue::Float(v) => Value::F32(*v),
        AMQPValue::Double(v) => Value::F64(*v),
        AMQPValue::DecimalValue(v) => Value::Decimal { scale: v.scale, value: v.value },
        // Lapin makes none from the wire: it has no letter.
        AMQPValue::ShortString(text) => Value::Str(Text::from(text.as_str())),
        AMQPValue::LongString(text) => Value::Str(Text::from(text.as_bytes())),
        AMQPValue::ByteArray(bytes) => Value::Bytes(bytes.as_slice().to_vec()),
        AMQPValue::Timestamp(v) => Value::Timestamp(*v),
        AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) if depth >= DEPTH_MAX => Value::Opaque(deep::encode(value)),
        AMQPValue::FieldArray(array) => {
            Value::Array(array.as_slice().iter().map(|value| from_value(value, depth + 1)).collect())
        }
        AMQPValue::FieldTable(table) => Value::Table(from_table(table, depth + 1)),
    }
}

/// The properties to publish `message` with by lapin, or `None` when its types cannot hold them exactly: a short
/// string or header name that is not UTF-8 or is too long, a name that repeats, a value that is not taken apart,
/// nesting below [`DEPTH_MAX`], no AMQP properties at all. Header order is not kept.
#[must_use]
pub fn to_lapin(message: &RawMessage) -> Option<BasicProperties> {
    let p = message.properties.amqp()?;
    let mut out = BasicProperties::default().with_headers(to_table(&message.headers, 0)?);
    macro_rules! short {
        ($($field:ident $with:ident),*) => {$(
            if let Some(text) = &p.$field {
                out = out.$with(to_short(text)?);
            }
        )*};
    }
    short!(
        content_type with_content_type, content_encoding with_content_encoding, correlation_id with_correlation_id,
        reply_to with_reply_to, expiration with_expiration, message_id with_message_id, kind with_type,
        user_id with_user_id, app_id with_app_id, cluster_id with_cluster_id
    );
    if let Some(mode) = p.delivery_mode {
        out = out.with_delivery_mode(mode);
    }
    if let Some(priority) = p.priority {
        out = out.with_priority(priority);
    }
    if let Some(timestamp) = p.timestamp {
        out = out.with_timestamp(timestamp);
    }
    Some(out)
}

/// A name or key as lapin's short string, when it can be one.
#[must_use]
pub fn to_short(text: &Text) -> Option<ShortString> {
    ShortString::try_new(text.as_str()?).ok()
}

fn to_table(headers: &Headers, depth: usize) -> Option<FieldTable> {
    let mut table = BTreeMap::new();
    for (name, value) in headers.iter() {
        let before = table.insert(to_short(name)?, to_value(value, depth)?);
        if before.is_some() {
            return None;
        }
    }
    Some(FieldTable::from(table))
}

fn to_value(value: &Value, depth: usize) -> Option<AMQPValue> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::Void => AMQPValue::Void,
        Value::Bool(v) => AMQPValue::Boolean(*v),
        Value::I8(v) => AMQPValue::ShortShortInt(*v),
        Value::U8(v) => AMQPValue::ShortShortUInt(*v),
        Value::I16(v) => AMQPValue::ShortInt(*v),
        Value::U16(v) => AMQPValue::ShortUInt(*v),
        Value::I32(v) => AMQPValue::LongInt(*v),
        Value::U32(v) => AMQPValue::LongUInt(*v),
        Value::I64(v) => AMQPValue::LongLongInt(*v),
        Value::F32(v) => AMQPValue::Float(*v),
        Value::F64(v) => AMQPValue::Double(*v),
        Value::Decimal { scale, value } => AMQPValue::DecimalValue(DecimalValue { scale: *scale, value: *value }),
        Value::Str(text) => AMQPValue::LongString(LongString::from(text.as_bytes())),
        Value::Bytes(bytes) => AMQPValue::ByteArray(ByteArray::from(bytes.as_slice())),
        Value::Timestamp(v) => AMQPValue::Timestamp(*v),
        Value::Array(values) => {
            let values: Option<Vec<_>> = values.iter().map(|value| to_value(value, depth + 1)).collect();
            AMQPValue::FieldArray(FieldArray::from(values?))
        }
        Value::Table(headers) => AMQPValue::FieldTable(to_table(headers, depth + 1)?),
        Value::Opaque(_) => return None,
    })
}

#[cfg(test)]
mod tests;
