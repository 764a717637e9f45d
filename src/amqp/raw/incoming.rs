//! The task that reads: it hands what comes in to whoever waits for it and answers what must be answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::RawError;
use super::content::{Content, Purpose, Received};
use super::frame::{BODY, Frame, FrameReader, HEADER, HEARTBEAT, METHOD};
use super::method::{self, CHANNEL, CHANNEL_CLOSE_OK, CONNECTION_CLOSE_OK, FLOW_OK, Method};
use super::outgoing::Outgoing;
use super::shared::{Reply, Shared, lossy};
use super::stream::ReadHalf;

pub(super) struct Incoming {
    pub(super) frames: FrameReader<ReadHalf>,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: mpsc::Sender<Outgoing>,
    /// Zero is none.
    pub(super) heartbeat_s: u16,
    pub(super) content: Option<Content>,
}

impl Incoming {
    /// Reads until the connection ends, and says so to everyone who waits.
    pub(super) async fn run(mut self) {
        let reason = loop {
            match self.next().await {
                Ok(frame) => {
                    if let Err(reason) = self.frame(frame) {
                        break reason;
                    }
                }
                Err(reason) => break reason,
            }
        };
        self.shared.end(reason);
    }

    /// The next frame. Any byte is a sign of life, also of a frame that takes minutes to come.
    async fn next(&mut self) -> Result<Frame, RawError> {
        loop {
            if let Some(frame) = self.frames.take()? {
                return Ok(frame);
            }
            if self.heartbeat_s == 0 {
                self.frames.read().await?;
            } else {
                let silence_s = 2 * u64::from(self.heartbeat_s);
                let read = timeout(Duration::from_secs(silence_s), self.frames.read()).await;
                read.map_err(|_| RawError::HeartbeatMissed(silence_s))??;
            }
        }
    }

    fn frame(&mut self, frame: Frame) -> Result<(), RawError> {
        match frame.kind {
            METHOD => return self.method(Method::parse(&frame.payload)?),
            HEADER => self.content()?.header(&frame.payload)?,
            BODY => self.content()?.body(&frame.payload)?,
            HEARTBEAT => return Ok(()),
            _ => return Err(RawError::Protocol("a frame of a kind nobody has defined")),
        }
        if let Some(content) = self.content.take_if(|content| content.is_complete()) {
            let mut state = self.shared.lock();
            match content.finish() {
                Received::Delivery(delivery) => state.deliver(delivery)?,
                Received::Got(delivery) => state.reply(Reply::Got(Some(Box::new(delivery))))?,
                Received::Return { code, text } => state.returned(code, text),
            }
        }
        Ok(())
    }

    fn content(&mut self) -> Result<&mut Content, RawError> {
        self.content.as_mut().ok_or(RawError::Protocol("a content without its method"))
    }

    /// An error is why the connection ends.
    fn method(&mut self, method: Method) -> Result<(), RawError> {
        match method {
            Method::Deliver(envelope) => self.content = Some(Content::new(Purpose::Deliver(envelope))),
            Method::GetOk(envelope) => self.content = Some(Content::new(Purpose::Get(envelope))),
            Method::Return { code, text } => self.content = Some(Content::new(Purpose::Return { code, text })),
            Method::Ack { tag } => self.shared.lock().confirmed(tag, true),
            Method::Nack { tag } => self.shared.lock().confirmed(tag, false),
            Method::QosOk | Method::ConsumeOk | Method::CancelOk | Method::ConfirmSelectOk => {
                self.shared.lock().reply(Reply::Done)?;
            }
            Method::DeclareOk { messages } => self.shared.lock().reply(Reply::Declared(messages))?,
            Method::GetEmpty => self.shared.lock().reply(Reply::Got(None))?,
            Method::Cancel => {
                let mut state = self.shared.lock();
                state.consumer_cancelled = true;
                state.consumer = None;
            }
            Method::Flow { active } => self.answer(flow_ok(active)),
            Method::ChannelClose { code, text } => {
                // The connection lives on, so that its end is orderly; nothing more happens on it.
                self.shared.end(RawError::ChannelClosed { code, text: lossy(&text) });
                self.content = None;
                self.answer(method::bare(CHANNEL, CHANNEL_CLOSE_OK));
            }
            Method::ConnectionClose { code, text } => {
                self.answer(method::bare(0, CONNECTION_CLOSE_OK));
                return Err(RawError::ConnectionClosed { code, text: lossy(&text) });
            }
            Method::ConnectionCloseOk => return Err(RawError::ClosedByUs),
            Method::Start { .. } | Method::Tune { .. } | Method::OpenOk | Method::ChannelOpenOk | Method::Other => {}
        }
        Ok(())
    }

    /// Never waits: a writer that has ended has told everyone why, and one that is stuck could not say it either.
    fn answer(&self, frames: Vec<u8>) {
        let _ = self.writer.try_send(Outgoing { frames, body: None });
    }
}

fn flow_ok(active: bool) -> Vec<u8> {
    let (class, method) = FLOW_OK;
    let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), &[u8::from(active)]].concat();
    super::frame::whole(METHOD, CHANNEL, &payload)
}
