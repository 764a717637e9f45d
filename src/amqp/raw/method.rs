//! The methods of AMQP 0-9-1 that this client says and understands.

use crate::amqp::codec::{EncodeError, Reader, encode_table, write_short};
use crate::message::{Headers, Text};

use super::RawError;
use super::frame::{self, METHOD};

/// A method as (class, method).
pub(super) type Name = (u16, u16);

pub(super) const START_OK: Name = (10, 11);
pub(super) const TUNE_OK: Name = (10, 31);
pub(super) const OPEN: Name = (10, 40);
pub(super) const CONNECTION_CLOSE: Name = (10, 50);
pub(super) const CONNECTION_CLOSE_OK: Name = (10, 51);
pub(super) const CHANNEL_OPEN: Name = (20, 10);
pub(super) const FLOW_OK: Name = (20, 21);
pub(super) const CHANNEL_CLOSE: Name = (20, 40);
pub(super) const CHANNEL_CLOSE_OK: Name = (20, 41);
pub(super) const QUEUE_DECLARE: Name = (50, 10);
pub(super) const QOS: Name = (60, 10);
pub(super) const CONSUME: Name = (60, 20);
pub(super) const CANCEL: Name = (60, 30);
pub(super) const CANCEL_OK: Name = (60, 31);
pub(super) const PUBLISH: Name = (60, 40);
pub(super) const GET: Name = (60, 70);
pub(super) const ACK: Name = (60, 80);
pub(super) const CONFIRM_SELECT: Name = (85, 10);

/// What a broker says to us.
#[derive(Debug)]
pub(super) enum Method {
    Start {
        mechanisms: Text,
    },
    Tune {
        channel_max: u16,
        frame_max: u32,
        heartbeat_s: u16,
    },
    OpenOk,
    ConnectionClose {
        code: u16,
        text: Text,
    },
    ConnectionCloseOk,
    Blocked {
        reason: Text,
    },
    Unblocked,
    ChannelOpenOk,
    Flow {
        active: bool,
    },
    ChannelClose {
        code: u16,
        text: Text,
    },
    ChannelCloseOk,
    DeclareOk {
        messages: u32,
    },
    QosOk,
    ConsumeOk,
    Cancel {
        tag: Text,
    },
    CancelOk {
        tag: Text,
    },
    Return {
        code: u16,
        text: Text,
    },
    Deliver(Envelope),
    GetOk(Envelope),
    GetEmpty,
    Ack {
        tag: u64,
        multiple: bool,
    },
    Nack {
        tag: u64,
        multiple: bool,
    },
    ConfirmSelectOk,
    /// Nothing that concerns us.
    Other,
}

/// What precedes the content of a delivery.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) tag: u64,
    pub(super) redelivered: bool,
    pub(super) exchange: Text,
    pub(super) routing_key: Text,
}

impl Method {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, RawError> {
        Self::read(&mut Reader::new(payload)).ok_or(RawError::Protocol("a method ends early"))
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let name = (r.u16()?, r.u16()?);
        Some(match name {
            (10, 10) => {
                r.fixed::<2>()?;
                r.long()?;
                Self::Start { mechanisms: Text::from(r.long()?) }
            }
            (10, 30) => Self::Tune { channel_max: r.u16()?, frame_max: r.u32()?, heartbeat_s: r.u16()? },
            (10, 41) => Self::OpenOk,
            CONNECTION_CLOSE => Self::ConnectionClose { code: r.u16()?, text: r.short()? },
            CONNECTION_CLOSE_OK => Self::ConnectionCloseOk,
            (10, 60) => Self::Blocked { reason: r.short()? },
            (10, 61) => Self::Unblocked,
            (20, 11) => Self::ChannelOpenOk,
            (20, 20) => Self::Flow { active: r.byte()? != 0 },
            CHANNEL_CLOSE => Self::ChannelClose { code: r.u16()?, text: r.short()? },
            CHANNEL_CLOSE_OK => Self::ChannelCloseOk,
            (50, 11) => {
                r.short()?;
                Self::DeclareOk { messages: r.u32()? }
            }
            (60, 11) => Self::QosOk,
            (60, 21) => Self::ConsumeOk,
            CANCEL => Self::Cancel { tag: r.short()? },
            CANCEL_OK => Self::CancelOk { tag: r.short()? },
            (60, 50) => Self::Return { code: r.u16()?, text: r.short()? },
            (60, 60) => {
                r.short_bytes()?;
                Self::Deliver(Envelope::read(r)?)
            }
            (60, 71) => Self::GetOk(Envelope::read(r)?),
            (60, 72) => Self::GetEmpty,
            ACK => Self::Ack { tag: r.u64()?, multiple: r.byte()? & 1 != 0 },
            (60, 120) => Self::Nack { tag: r.u64()?, multiple: r.byte()? & 1 != 0 },
            (85, 11) => Self::ConfirmSelectOk,
            _ => Self::Other,
        })
    }
}

impl Envelope {
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { tag: r.u64()?, redelivered: r.byte()? & 1 != 0, exchange: r.short()?, routing_key: r.short()? })
    }
}

/// Writes the arguments of a method one after another.
pub(super) struct Arguments<'a>(&'a mut Vec<u8>);

impl Arguments<'_> {
    pub(super) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub(super) fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(super) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(super) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    /// `what` names the string in an error.
    pub(super) fn short(&mut self, what: &'static str, text: &[u8]) -> Result<(), EncodeError> {
        write_short(self.0, text).ok_or(EncodeError::Property { name: what, length: text.len() })
    }

    pub(super) fn long(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn table(&mut self, table: &Headers) -> Result<(), EncodeError> {
        encode_table(self.0, table)
    }
}

/// Appends a method frame to `out`.
pub(super) fn append(
    out: &mut Vec<u8>,
    channel: u16,
    (class, method): Name,
    arguments: impl FnOnce(&mut Arguments<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    frame::append(out, METHOD, channel, |out| {
        let mut writer = Arguments(out);
        writer.u16(class);
        writer.u16(method);
        arguments(&mut writer)
    })
}

/// A method frame without arguments.
pub(super) fn bare(channel: u16, (class, method): Name) -> Vec<u8> {
    frame::whole(METHOD, channel, &[class.to_be_bytes(), method.to_be_bytes()].concat())
}
