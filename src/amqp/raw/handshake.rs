//! From a stream of bytes to an open connection.

use tokio::io::AsyncWriteExt;

use super::RawError;
use super::frame::{FrameReader, HEARTBEAT};
use super::method::{self, CONNECTION_CLOSE_OK, Method, OPEN, START_OK, TUNE_OK};
use super::state::lossy;
use super::stream::{ReadHalf, WriteHalf};
use crate::amqp::codec::EncodeError;
use crate::amqp::uri::{Auth, BrokerAddress};
use crate::message::{Headers, Text, Value};

/// What both sides agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    /// The largest frame the broker accepts; 0 is any.
    pub(super) frame_max: u32,
    /// The greatest number of a channel; 0 is any.
    pub(super) channel_max: u16,
    /// Zero is none.
    pub(super) heartbeat_s: u16,
}

pub(super) struct Handshake<'a> {
    pub(super) frames: &'a mut FrameReader<ReadHalf>,
    pub(super) writer: &'a mut WriteHalf,
    pub(super) address: &'a BrokerAddress,
    pub(super) connection_name: &'a str,
}

impl Handshake<'_> {
    pub(super) async fn run(mut self) -> Result<Agreed, RawError> {
        let agreed = self.introduce().await.map_err(|error| match error {
            // A broker that does not close in words shows by hanging up that it refuses us.
            RawError::Lost(error) => RawError::HungUp(error),
            other => other,
        })?;
        self.say(OPEN, |out| {
            out.short("virtual host", self.address.vhost.as_bytes())?;
            out.u8(0);
            out.u8(0);
            Ok(())
        })
        .await?;
        let Method::OpenOk = self.hear().await? else { return Err(UNEXPECTED) };
        Ok(agreed)
    }

    async fn introduce(&mut self) -> Result<Agreed, RawError> {
        self.write(b"AMQP\x00\x00\x09\x01").await?;
        let Method::Start { mechanisms } = self.hear().await? else { return Err(UNEXPECTED) };
        let (mechanism, response) = self.authentication(&mechanisms)?;
        let properties = client_properties(self.connection_name);
        self.say(START_OK, |out| {
            out.table(&properties)?;
            out.short("mechanism", mechanism.as_bytes())?;
            out.long(&response);
            out.short("locale", b"en_US")
        })
        .await?;
        let Method::Tune { channel_max, frame_max, heartbeat_s } = self.hear().await? else { return Err(UNEXPECTED) };
        let agreed = Agreed {
            frame_max: smaller_limit(frame_max, self.address.frame_max.unwrap_or(0)),
            channel_max: smaller_limit(channel_max, self.address.channel_max.unwrap_or(0)),
            heartbeat_s: self.address.heartbeat_s.unwrap_or(heartbeat_s),
        };
        self.say(TUNE_OK, |out| {
            out.u16(agreed.channel_max);
            out.u32(agreed.frame_max);
            out.u16(agreed.heartbeat_s);
            Ok(())
        })
        .await?;
        Ok(agreed)
    }

    fn authentication(&self, offered: &Text) -> Result<(&'static str, Vec<u8>), RawError> {
        let (mechanism, response) = match self.address.auth {
            Auth::External => ("EXTERNAL", Vec::new()),
            Auth::Plain => {
                let (user, password) = self.address.credentials()?;
                ("PLAIN", [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat())
            }
        };
        let mut names = offered.as_bytes().split(|byte| *byte == b' ');
        if names.any(|name| name == mechanism.as_bytes()) {
            Ok((mechanism, response))
        } else {
            Err(RawError::Mechanism(mechanism))
        }
    }

    async fn say(
        &mut self,
        name: method::Name,
        arguments: impl FnOnce(&mut method::Arguments<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), RawError> {
        let mut frame = Vec::new();
        method::append(&mut frame, 0, name, arguments)?;
        self.write(&frame).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), RawError> {
        self.writer.write_all(bytes).await.map_err(RawError::lost)?;
        self.writer.flush().await.map_err(RawError::lost)
    }

    /// The next method, unless it ends the connection.
    async fn hear(&mut self) -> Result<Method, RawError> {
        loop {
            let frame = self.frames.next().await?;
            if frame.kind == HEARTBEAT {
                continue;
            }
            return match Method::parse(frame.payload)? {
                Method::ConnectionClose { code, text } => {
                    // Politeness; the broker has made up its mind.
                    let _ = self.write(&method::bare(0, CONNECTION_CLOSE_OK)).await;
                    Err(RawError::ConnectionClosed { code, text: lossy(&text) })
                }
                method => Ok(method),
            };
        }
    }
}

const UNEXPECTED: RawError = RawError::Protocol("it says something else than the handshake calls for");

/// Zero is no limit.
fn smaller_limit<N: Ord + Default>(a: N, b: N) -> N {
    let none = N::default();
    if a == none || b == none { a.max(b) } else { a.min(b) }
}

fn client_properties(connection_name: &str) -> Headers {
    let text = |text: &str| Value::Str(text.into());
    let mut capabilities = Headers::new();
    // With the last one a refusal comes as 403 with its reason, not as a connection that goes away.
    for name in [
        "consumer_cancel_notify",
        "publisher_confirms",
        "basic.nack",
        "connection.blocked",
        "authentication_failure_close",
    ] {
        capabilities.push(name, Value::Bool(true));
    }
    let mut properties = Headers::new();
    properties.push("product", text("Dead Letter Office"));
    properties.push("version", text(env!("CARGO_PKG_VERSION")));
    properties.push("platform", text("Rust"));
    properties.push("connection_name", text(connection_name));
    properties.push("capabilities", Value::Table(capabilities));
    properties
}
