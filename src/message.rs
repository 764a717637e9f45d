//! A message as a broker handed it over: body, key, ordered headers with typed values, properties.
//!
//! Nothing here interprets anything. The model holds whatever AMQP 0-9-1 and Kafka can carry: names and
//! strings are bytes that are usually UTF-8, headers keep their order and may repeat, every AMQP
//! field-table type is a variant of its own, and a Kafka header is a [`Value::Bytes`] or, when null, a
//! [`Value::Void`]. [`wire`] turns a message into bytes and back; [`natural`] writes headers as JSON for people.

pub mod natural;
pub mod wire;

use std::fmt;

use bytes::Bytes;

/// Bytes that are text by convention only: brokers pass them through unchecked.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Vec<u8>);

impl Text {
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, when it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text when PostgreSQL's `text` can hold it: UTF-8 without U+0000.
    #[must_use]
    pub fn as_sql(&self) -> Option<&str> {
        self.as_str().filter(|text| !text.contains('\0'))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

/// A header value with its wire type. The letter in each remark is RabbitMQ's field-table letter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `V`; a Kafka header whose value is null.
    Void,
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`; RabbitMQ reads `L` as the same and sends `l`.
    I64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: `value / 10^scale`.
    Decimal { scale: u8, value: u32 },
    /// `S`: any bytes, text by convention.
    Str(Text),
    /// `x`; a Kafka header value.
    Bytes(Vec<u8>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `A`
    Array(Vec<Value>),
    /// `F`
    Table(Headers),
    /// An AMQP-encoded value that is not taken apart, its letter first: a letter nobody has defined, with
    /// the rest of its table behind it, or nesting below [`DEPTH_MAX`].
    Opaque(Vec<u8>),
}

/// Tables and arrays nest this deep at most; what lies below is kept as [`Value::Opaque`]. A frame of 128 KiB
/// can nest 18,000 levels, enough to overflow the stack of whoever walks them.
pub const DEPTH_MAX: usize = 64;

impl Value {
    /// Any integer type, and decimal text: clients choose widths freely and some turn everything into strings.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::I8(v) => Some(i64::from(*v)),
            Self::U8(v) => Some(i64::from(*v)),
            Self::I16(v) => Some(i64::from(*v)),
            Self::U16(v) => Some(i64::from(*v)),
            Self::I32(v) => Some(i64::from(*v)),
            Self::U32(v) => Some(i64::from(*v)),
            Self::I64(v) => Some(*v),
            Self::Str(text) => text.as_str()?.trim().parse().ok(),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// UTF-8 text of a string or byte value.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => text.as_str(),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The bytes of a string or byte value.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Str(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_table(&self) -> Option<&Headers> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }
}

/// Ordered headers whose names may repeat (Kafka); also an AMQP field table.
///
/// An AMQP message without a header table and one with an empty table are the same here: a replay always
/// carries a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headers(Vec<(Text, Value)>);

impl Headers {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// The first value of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The last value of that name: the newest for writers that append.
    #[must_use]
    pub fn get_last(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn push(&mut self, name: impl Into<Text>, value: Value) {
        self.0.push((name.into(), value));
    }

    /// Replaces every header of that name by one, at the end.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.retain(|(n, _)| n != name);
        self.push(name, value);
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &Value) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Text, Value)> + DoubleEndedIterator {
        self.0.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Text, Value)> for Headers {
    fn from_iter<I: IntoIterator<Item = (Text, Value)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

impl IntoIterator for Headers {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// AMQP 0-9-1 basic properties but for the header table, which is [`RawMessage::headers`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmqpProperties {
    pub content_type: Option<Text>,
    pub content_encoding: Option<Text>,
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub correlation_id: Option<Text>,
    pub reply_to: Option<Text>,
    pub expiration: Option<Text>,
    pub message_id: Option<Text>,
    /// Seconds since 1970, as the publisher wrote them.
    pub timestamp: Option<u64>,
    /// The property `type`.
    pub kind: Option<Text>,
    pub user_id: Option<Text>,
    pub app_id: Option<Text>,
    pub cluster_id: Option<Text>,
}

/// A Kafka record's timestamp, in milliseconds since 1970, and who set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordTime {
    /// `CreateTime`: the producer's.
    Created(i64),
    /// `LogAppendTime`: the broker's, when it appended the record.
    Appended(i64),
}

impl RecordTime {
    #[must_use]
    pub fn millis(self) -> i64 {
        match self {
            Self::Created(millis) | Self::Appended(millis) => millis,
        }
    }
}

/// What a Kafka record carries beside key, value and headers. Where it lies is not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KafkaProperties {
    /// `None`: the record has no timestamp, which only the oldest formats allow.
    pub timestamp: Option<RecordTime>,
    /// `None`: the log is older than leader epochs, or the client did not say.
    pub leader_epoch: Option<i32>,
}

/// What a broker carries beside headers and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Properties {
    Amqp(Box<AmqpProperties>),
    Kafka(KafkaProperties),
}

impl Properties {
    #[must_use]
    pub fn amqp(&self) -> Option<&AmqpProperties> {
        match self {
            Self::Amqp(properties) => Some(properties),
            Self::Kafka(_) => None,
        }
    }

    pub fn amqp_mut(&mut self) -> Option<&mut AmqpProperties> {
        match self {
            Self::Amqp(properties) => Some(properties),
            Self::Kafka(_) => None,
        }
    }

    #[must_use]
    pub fn kafka(&self) -> Option<&KafkaProperties> {
        match self {
            Self::Amqp(_) => None,
            Self::Kafka(properties) => Some(properties),
        }
    }
}

impl Default for Properties {
    fn default() -> Self {
        Self::Amqp(Box::default())
    }
}

/// One message, lossless.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawMessage {
    /// `None` is Kafka's null value; AMQP always has a body, if an empty one.
    pub body: Option<Bytes>,
    /// Kafka's record key; `None` is null.
    pub key: Option<Bytes>,
    pub headers: Headers,
    pub properties: Properties,
}

impl RawMessage {
    #[must_use]
    pub fn amqp(properties: AmqpProperties, headers: Headers, body: impl Into<Bytes>) -> Self {
        Self { body: Some(body.into()), key: None, headers, properties: Properties::Amqp(Box::new(properties)) }
    }

    /// A Kafka record. Header values are [`Value::Bytes`], or [`Value::Void`] when null.
    #[must_use]
    pub fn kafka(properties: KafkaProperties, key: Option<Bytes>, headers: Headers, value: Option<Bytes>) -> Self {
        Self { body: value, key, headers, properties: Properties::Kafka(properties) }
    }

    /// A header's UTF-8 text, first of that name.
    #[must_use]
    pub fn header_str(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.as_str()
    }

    /// What this message holds in memory, about: the measure of every byte budget.
    #[must_use]
    pub fn footprint(&self) -> usize {
        fn value(v: &Value) -> usize {
            match v {
                Value::Str(text) => text.len(),
                Value::Bytes(bytes) | Value::Opaque(bytes) => bytes.len(),
                Value::Array(values) => values.iter().map(|v| 32 + value(v)).sum(),
                Value::Table(table) => headers(table),
                _ => 0,
            }
        }
        fn headers(table: &Headers) -> usize {
            table.iter().map(|(n, v)| 56 + n.len() + value(v)).sum()
        }
        512 + self.body.as_ref().map_or(0, Bytes::len)
            + self.key.as_ref().map_or(0, Bytes::len)
            + headers(&self.headers)
    }
}
