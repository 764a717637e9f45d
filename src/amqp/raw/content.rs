//! Messages as they come in: an envelope, a header frame, body frames.

use bytes::Bytes;

use crate::amqp::codec::{Reader, decode_properties};
use crate::message::{AmqpProperties, Headers, RawMessage, Text};

use super::RawError;
use super::method::Envelope;

/// Above what any broker accepts; a size beyond it is not believed.
const BODY_BYTES_MAX: u64 = 2 << 30;

/// A body announced as not larger has all its room at once.
const BELIEVED_BYTES: usize = 1 << 20;

/// A message the broker handed over and waits to hear about.
#[derive(Clone, Debug, PartialEq)]
pub struct RawDelivery {
    /// Means something on the connection it came by, and nowhere else.
    pub tag: u64,
    pub exchange: Text,
    pub routing_key: Text,
    pub redelivered: bool,
    pub message: RawMessage,
}

/// What a content belongs to.
#[derive(Debug)]
pub(super) enum Purpose {
    Deliver(Envelope),
    Get(Envelope),
    /// A message of our own that comes back. The publisher still has it, so the body is not kept.
    Return {
        code: u16,
        text: Text,
    },
}

/// A content being received.
#[derive(Debug)]
pub(super) struct Content {
    purpose: Purpose,
    header: Option<Header>,
    body: Vec<u8>,
    received: u64,
}

#[derive(Debug)]
struct Header {
    body_bytes: u64,
    properties: AmqpProperties,
    headers: Headers,
}

impl Content {
    pub(super) fn new(purpose: Purpose) -> Self {
        Self { purpose, header: None, body: Vec::new(), received: 0 }
    }

    /// Takes the content header.
    pub(super) fn header(&mut self, payload: &[u8]) -> Result<(), RawError> {
        if self.header.is_some() {
            return Err(RawError::Protocol("a content has two headers"));
        }
        const EARLY: RawError = RawError::Protocol("a content header ends early");
        let mut reader = Reader::new(payload);
        reader.u32().ok_or(EARLY)?; // class and weight
        let body_bytes = reader.u64().ok_or(EARLY)?;
        if body_bytes > BODY_BYTES_MAX {
            return Err(RawError::Protocol("a body is larger than 2 GiB"));
        }
        let (properties, headers) = decode_properties(reader.rest());
        self.header = Some(Header { body_bytes, properties, headers });
        Ok(())
    }

    /// Takes a part of the body.
    pub(super) fn body(&mut self, payload: &[u8]) -> Result<(), RawError> {
        let header = self.header.as_ref().ok_or(RawError::Protocol("a body comes before its header"))?;
        self.received += payload.len() as u64;
        if self.received > header.body_bytes {
            return Err(RawError::Protocol("a body is longer than its header says"));
        }
        if self.keeps_body() {
            let body_bytes = header.body_bytes as usize;
            make_room(&mut self.body, payload.len(), body_bytes)?;
            self.body.extend_from_slice(payload);
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.body_bytes == self.received)
    }

    fn keeps_body(&self) -> bool {
        !matches!(self.purpose, Purpose::Return { .. })
    }

    /// The purpose, and the message so far as it was kept.
    pub(super) fn finish(self) -> Received {
        let (properties, headers) = self.header.map(|h| (h.properties, h.headers)).unwrap_or_default();
        let (envelope, received): (_, fn(RawDelivery) -> Received) = match self.purpose {
            Purpose::Deliver(envelope) => (envelope, Received::Delivery),
            Purpose::Get(envelope) => (envelope, Received::Got),
            Purpose::Return { code, text } => return Received::Return { code, text, headers },
        };
        received(RawDelivery {
            tag: envelope.tag,
            exchange: envelope.exchange,
            routing_key: envelope.routing_key,
            redelivered: envelope.redelivered,
            message: RawMessage::amqp(properties, headers, Bytes::from(self.body)),
        })
    }
}

/// Makes room for `more` bytes of a body, in the end exactly for `announced`. A large announcement is believed for
/// twice what has come.
fn make_room(body: &mut Vec<u8>, more: usize, announced: usize) -> Result<(), RawError> {
    let needed = body.len() + more;
    if needed > body.capacity() {
        let capacity = announced.min((2 * needed).max(BELIEVED_BYTES));
        let reserved = body.try_reserve_exact(capacity - body.len());
        reserved.map_err(|_| RawError::Protocol("a body is larger than our memory"))?;
    }
    Ok(())
}

/// A content that is all there.
#[derive(Debug)]
pub(super) enum Received {
    Delivery(RawDelivery),
    Got(RawDelivery),
    Return { code: u16, text: Text, headers: Headers },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcing(body_bytes: u64) -> Content {
        let envelope = Envelope { tag: 1, redelivered: false, exchange: "".into(), routing_key: "".into() };
        let mut content = Content::new(Purpose::Get(envelope));
        content.header(&[&[0, 60, 0, 0][..], &body_bytes.to_be_bytes(), &[0, 0]].concat()).expect("a header");
        content
    }

    #[test]
    fn a_body_ends_in_a_buffer_of_its_size() {
        for size in [0, 1, 1000, 5 << 20] {
            let mut content = announcing(size);
            let body = vec![7; size as usize];
            for chunk in body.chunks(70_000) {
                assert!(!content.is_complete());
                content.body(chunk).expect("fits");
            }
            assert!(content.is_complete());
            assert_eq!(content.body.capacity(), size as usize);
        }
    }

    #[test]
    fn an_absurd_size_is_believed_for_what_has_come() {
        let mut content = announcing(BODY_BYTES_MAX);
        content.body(&[7; 100]).expect("fits");
        assert_eq!(content.body.capacity(), BELIEVED_BYTES);
        content.body(&vec![7; 2 << 20]).expect("fits");
        assert!(content.body.capacity() <= 5 << 20, "{}", content.body.capacity());
        let more = announcing(4).body(b"hello");
        assert!(matches!(more, Err(RawError::Protocol(_))), "{more:?}");
    }
}
