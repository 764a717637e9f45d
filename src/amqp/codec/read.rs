//! Bytes into properties and headers.

use super::*;

/// What stands before the content of an array or a table.
const LETTER_AND_LENGTH: usize = 5;

/// `None` from any method means that the bytes ended too early; `rest` then begins where reading stopped.
pub(in crate::amqp) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(in crate::amqp) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(in crate::amqp) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn properties(&mut self, p: &mut AmqpProperties, headers: &mut Headers) -> Option<()> {
        let flags = self.u16()?;
        let mut more = flags;
        while more & MORE_FLAGS != 0 {
            more = self.u16()?;
        }
        let has = |flag| flags & flag != 0;
        p.content_type = self.short_if(has(CONTENT_TYPE))?;
        p.content_encoding = self.short_if(has(CONTENT_ENCODING))?;
        if has(HEADERS) {
            *headers = self.header_table()?;
        }
        if has(DELIVERY_MODE) {
            p.delivery_mode = Some(self.byte()?);
        }
        if has(PRIORITY) {
            p.priority = Some(self.byte()?);
        }
        p.correlation_id = self.short_if(has(CORRELATION_ID))?;
        p.reply_to = self.short_if(has(REPLY_TO))?;
        p.expiration = self.short_if(has(EXPIRATION))?;
        p.message_id = self.short_if(has(MESSAGE_ID))?;
        if has(TIMESTAMP) {
            p.timestamp = Some(self.u64()?);
        }
        p.kind = self.short_if(has(KIND))?;
        p.user_id = self.short_if(has(USER_ID))?;
        p.app_id = self.short_if(has(APP_ID))?;
        p.cluster_id = self.short_if(has(CLUSTER_ID))?;
        Some(())
    }

    /// A table that claims more than there is gets what there is.
    fn header_table(&mut self) -> Option<Headers> {
        let claimed = self.u32()? as usize;
        let entries = self.take(claimed.min(self.rest.len()))?;
        Some(Reader { rest: entries }.table(0))
    }

    pub(super) fn table(mut self, depth: usize) -> Headers {
        let mut headers = Headers::new();
        while !self.rest.is_empty() {
            match self.short() {
                Some(name) => headers.push(name, self.value_or_rest(depth)),
                None => headers.push(Text::default(), Value::Opaque(self.take_rest())),
            }
        }
        headers
    }

    fn array(mut self, depth: usize) -> Vec<Value> {
        let mut values = Vec::new();
        while !self.rest.is_empty() {
            values.push(self.value_or_rest(depth));
        }
        values
    }

    fn value_or_rest(&mut self, depth: usize) -> Value {
        let start = self.rest;
        match self.value(depth) {
            Some(value) => value,
            None => {
                self.rest = start;
                Value::Opaque(self.take_rest())
            }
        }
    }

    /// `None` also for a letter nobody has defined: its length is not known either.
    fn value(&mut self, depth: usize) -> Option<Value> {
        let start = self.rest;
        Some(match self.byte()? {
            b'V' => Value::Void,
            b't' => Value::Bool(self.byte()? != 0),
            b'b' => Value::I8(i8::from_be_bytes(self.fixed()?)),
            b'B' => Value::U8(self.byte()?),
            b's' => Value::I16(i16::from_be_bytes(self.fixed()?)),
            b'u' => Value::U16(self.u16()?),
            b'I' => Value::I32(i32::from_be_bytes(self.fixed()?)),
            b'i' => Value::U32(self.u32()?),
            b'l' | b'L' => Value::I64(i64::from_be_bytes(self.fixed()?)),
            b'f' => Value::F32(f32::from_bits(self.u32()?)),
            b'd' => Value::F64(f64::from_bits(self.u64()?)),
            b'T' => Value::Timestamp(self.u64()?),
            b'D' => Value::Decimal { scale: self.byte()?, value: self.u32()? },
            b'S' => Value::Str(Text::from(self.long()?)),
            b'x' => Value::Bytes(self.long()?.to_vec()),
            b'A' | b'F' if depth >= DEPTH_MAX => {
                let content = self.long()?;
                Value::Opaque(start[..LETTER_AND_LENGTH + content.len()].to_vec())
            }
            b'A' => Value::Array(Reader { rest: self.long()? }.array(depth + 1)),
            b'F' => Value::Table(Reader { rest: self.long()? }.table(depth + 1)),
            _ => return None,
        })
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest).to_vec()
    }

    pub(in crate::amqp) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(in crate::amqp) fn u16(&mut self) -> Option<u16> {
        self.fixed().map(u16::from_be_bytes)
    }

    pub(in crate::amqp) fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    pub(in crate::amqp) fn u64(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_be_bytes)
    }

    pub(in crate::amqp) fn byte(&mut self) -> Option<u8> {
        Some(self.fixed::<1>()?[0])
    }

    pub(in crate::amqp) fn short(&mut self) -> Option<Text> {
        self.short_bytes().map(Text::from)
    }

    /// Leaves `rest` alone when the string is not all there.
    pub(in crate::amqp) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first()?;
        let (text, rest) = rest.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Some(text)
    }

    /// The outer option is whether the bytes sufficed.
    fn short_if(&mut self, present: bool) -> Option<Option<Text>> {
        if present { self.short().map(Some) } else { Some(None) }
    }

    pub(in crate::amqp) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }
}
