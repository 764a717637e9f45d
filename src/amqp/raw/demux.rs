//! From frames to channels: hands what comes in to whoever waits for it and answers what must be answered.

use std::sync::Arc;

use super::consumer::End;
use super::content::{Content, Purpose, Received};
use super::frame::{BODY, Frame, HEADER, HEARTBEAT, METHOD};
use super::method::{self, CHANNEL_CLOSE_OK, CONNECTION_CLOSE_OK, FLOW_OK, Method};
use super::shared::Shared;
use super::state::{Channel, Reply, lossy};
use super::{RawDelivery, RawError};

pub(super) struct Demux {
    pub(super) shared: Arc<Shared>,
    /// By number; only those from which something has come.
    channels: Vec<Option<Receiving>>,
    /// Numbers of channels with deliveries that were not yet handed over.
    unhanded: Vec<u16>,
}

struct Receiving {
    channel: Arc<Channel>,
    content: Option<Content>,
    run: Vec<RawDelivery>,
}

impl Demux {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, channels: Vec::new(), unhanded: Vec::new() }
    }

    /// Takes a frame. An error is why the connection ends.
    pub(super) fn frame(&mut self, frame: &Frame<'_>) -> Result<(), RawError> {
        match frame.kind {
            METHOD if frame.channel == 0 => self.of_connection(Method::parse(frame.payload)?),
            METHOD => self.method(frame.channel, frame.payload),
            HEADER | BODY => self.content(frame),
            HEARTBEAT => Ok(()),
            _ => Err(RawError::Protocol("a frame of a kind nobody has defined")),
        }
    }

    /// Hands all deliveries on, one wake-up for each consumer.
    pub(super) fn hand_over(&mut self) -> Result<(), RawError> {
        while let Some(number) = self.unhanded.pop() {
            if let Some(receiving) = self.channels.get_mut(usize::from(number)).and_then(Option::as_mut) {
                receiving.hand_over()?;
            }
        }
        Ok(())
    }

    /// Nothing more will come. What has come goes first.
    pub(super) fn finish(&mut self, reason: RawError) {
        let handed = self.hand_over();
        self.shared.end(handed.err().unwrap_or(reason));
    }

    /// `None` for a channel nobody has: what comes for it was sent before the broker knew that it is closed.
    fn receiving(&mut self, number: u16) -> Option<&mut Receiving> {
        let index = usize::from(number);
        if self.channels.get(index).is_none_or(Option::is_none) {
            let channel = self.shared.channel(number)?;
            if self.channels.len() <= index {
                self.channels.resize_with(index + 1, || None);
            }
            self.channels[index] = Some(Receiving { channel, content: None, run: Vec::new() });
        }
        self.channels[index].as_mut()
    }

    fn content(&mut self, frame: &Frame<'_>) -> Result<(), RawError> {
        let Some(receiving) = self.receiving(frame.channel) else { return Ok(()) };
        let content = receiving.content.as_mut().ok_or(RawError::Protocol("a content without its method"))?;
        if frame.kind == HEADER {
            content.header(frame.payload)?
        } else {
            content.body(frame.payload)?
        }
        let Some(content) = receiving.content.take_if(|content| content.is_complete()) else { return Ok(()) };
        match content.finish() {
            Received::Delivery(delivery) => {
                receiving.run.push(delivery);
                if receiving.run.len() == 1 {
                    self.unhanded.push(frame.channel);
                }
                Ok(())
            }
            Received::Got(delivery) => receiving.channel.lock().reply(Reply::Got(Some(Box::new(delivery)))),
            Received::Return { code, text, headers } => {
                let mut state = receiving.channel.lock();
                // Of a channel that has ended nobody asks any more.
                if state.ended.is_some() { Ok(()) } else { state.publishes.returned(code, text, &headers) }
            }
        }
    }

    fn method(&mut self, number: u16, payload: &[u8]) -> Result<(), RawError> {
        let Some(receiving) = self.receiving(number) else { return Ok(()) };
        match Method::parse(payload)? {
            Method::Deliver(envelope) => receiving.begin(Purpose::Deliver(envelope)),
            Method::GetOk(envelope) => receiving.begin(Purpose::Get(envelope)),
            Method::Return { code, text } => receiving.begin(Purpose::Return { code, text }),
            Method::Flow { active } => {
                if self.shared.outbox.is_stuck() {
                    return Err(RawError::Protocol("it asks more than it listens"));
                }
                self.shared.outbox.push(flow_ok(number, active), None);
                Ok(())
            }
            Method::ChannelClose { code, text } => {
                receiving.hand_over()?;
                receiving.channel.end(RawError::ChannelClosed { code, text: lossy(&text) });
                self.shared.outbox.push(method::bare(number, CHANNEL_CLOSE_OK), None);
                self.forget(number);
                Ok(())
            }
            Method::ChannelCloseOk => {
                self.forget(number);
                Ok(())
            }
            method => receiving.answer(method),
        }
    }

    fn forget(&mut self, number: u16) {
        if let Some(receiving) = self.channels.get_mut(usize::from(number)) {
            *receiving = None;
        }
        self.shared.forget(number);
    }

    fn of_connection(&self, method: Method) -> Result<(), RawError> {
        match method {
            Method::ConnectionClose { code, text } => {
                self.shared.outbox.push(method::bare(0, CONNECTION_CLOSE_OK), None);
                return Err(RawError::ConnectionClosed { code, text: lossy(&text) });
            }
            Method::ConnectionCloseOk => return Err(RawError::ClosedByUs),
            Method::Blocked { reason } => self.shared.set_blocked(Some(lossy(&reason))),
            Method::Unblocked => self.shared.set_blocked(None),
            _ => {}
        }
        Ok(())
    }
}

impl Receiving {
    fn begin(&mut self, purpose: Purpose) -> Result<(), RawError> {
        if self.content.is_some() {
            return Err(RawError::Protocol("a content begins before the last has ended"));
        }
        self.content = Some(Content::new(purpose));
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), RawError> {
        if self.run.is_empty() { Ok(()) } else { self.channel.deliver(&mut self.run) }
    }

    /// A method that is about the channel's state.
    fn answer(&mut self, method: Method) -> Result<(), RawError> {
        // What came before it is received before it.
        self.hand_over()?;
        let mut state = self.channel.lock();
        match method {
            Method::Ack { tag, multiple } => state.publishes.confirmed(tag, multiple, true),
            Method::Nack { tag, multiple } => state.publishes.confirmed(tag, multiple, false),
            Method::ChannelOpenOk | Method::QosOk | Method::ConsumeOk | Method::ConfirmSelectOk => {
                return state.reply(Reply::Done);
            }
            Method::DeclareOk { messages } => return state.reply(Reply::Declared(messages)),
            Method::GetEmpty => return state.reply(Reply::Got(None)),
            Method::CancelOk { tag } => {
                state.consumer_over(&tag, End::Cancelled);
                return state.reply(Reply::Done);
            }
            Method::Cancel { tag } => state.consumer_over(&tag, End::Failed(RawError::ConsumerCancelled)),
            _ => {}
        }
        Ok(())
    }
}

fn flow_ok(channel: u16, active: bool) -> Vec<u8> {
    let (class, method) = FLOW_OK;
    let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), &[u8::from(active)]].concat();
    super::frame::whole(METHOD, channel, &payload)
}
