//! A broker in memory: it answers what it is asked, in as many bytes as it is allowed.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Mutex;

use super::super::connection::{ConnectOptions, RawConnection};
use super::super::{RawError, frame as frames};

/// Longer than anything takes; time is paused.
pub(super) const WITHIN: Duration = Duration::from_secs(3600);

pub(super) struct Peer {
    pub(super) channel_max: u16,
    pub(super) heartbeat_s: u16,
    /// After so many bytes it hangs up.
    pub(super) bytes: usize,
    /// What it delivers at once to a consumer.
    pub(super) deliveries: usize,
}

impl Default for Peer {
    fn default() -> Self {
        Self { channel_max: 2047, heartbeat_s: 0, bytes: usize::MAX, deliveries: 0 }
    }
}

/// For what it says without being asked.
#[derive(Clone)]
pub(super) struct Voice(Arc<Mutex<Speaking>>);

struct Speaking {
    /// `None` once it has hung up.
    stream: Option<WriteHalf<DuplexStream>>,
    bytes: usize,
    pub(super) said: usize,
}

impl Voice {
    pub(super) async fn say(&self, bytes: &[u8]) {
        let mut speaking = self.0.lock().await;
        let allowed = bytes.len().min(speaking.bytes);
        speaking.bytes -= allowed;
        speaking.said += allowed;
        let hangs_up = allowed < bytes.len();
        if let Some(stream) = &mut speaking.stream {
            let _ = stream.write_all(&bytes[..allowed]).await;
            if hangs_up {
                let _ = stream.shutdown().await;
                speaking.stream = None;
            }
        }
    }

    /// Bytes so far.
    pub(super) async fn said(&self) -> usize {
        self.0.lock().await.said
    }

    pub(super) async fn hang_up(&self) {
        if let Some(mut stream) = self.0.lock().await.stream.take() {
            let _ = stream.shutdown().await;
        }
    }
}

/// A connection to such a broker.
pub(super) async fn connect(peer: Peer) -> Result<(RawConnection, Voice), RawError> {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (hearing, speaking) = tokio::io::split(theirs);
    let voice = Voice(Arc::new(Mutex::new(Speaking { stream: Some(speaking), bytes: peer.bytes, said: 0 })));
    tokio::spawn(peer.run(hearing, voice.clone()));
    let (read, write) = tokio::io::split(ours);
    let address = "amqp://guest:guest@localhost/%2f".parse().expect("an address");
    let options = ConnectOptions::default();
    let connection = RawConnection::over((Box::new(read), Box::new(write)), &address, &options).await?;
    Ok((connection, voice))
}

pub(super) fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    frames::whole(kind, channel, payload)
}

fn method(channel: u16, (class, method): (u16, u16), arguments: &[u8]) -> Vec<u8> {
    frame(frames::METHOD, channel, &[&class.to_be_bytes(), &method.to_be_bytes(), arguments].concat())
}

/// A small message on a channel. All have the same tag, which nobody here looks at.
pub(super) const DELIVERY: fn(u16) -> Vec<u8> = |channel| {
    let envelope = b"\x05dlo-1\0\0\0\0\0\0\0\x01\0\x01e\x01k";
    let header = b"\0\x3c\0\0\0\0\0\0\0\0\0\x05\x20\0\0\0\0\x03\x01at\x01";
    [
        method(channel, (60, 60), envelope),
        frame(frames::HEADER, channel, header),
        frame(frames::BODY, channel, b"he"),
        frame(frames::BODY, channel, b"llo"),
    ]
    .concat()
};

impl Peer {
    async fn run(self, mut hearing: ReadHalf<DuplexStream>, voice: Voice) {
        let mut protocol = [0; 8];
        if hearing.read_exact(&mut protocol).await.is_err() {
            return;
        }
        voice.say(&method(0, (10, 10), b"\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US")).await;
        loop {
            let mut head = [0; 7];
            if hearing.read_exact(&mut head).await.is_err() {
                return;
            }
            let [kind, c1, c0, length @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes(length) as usize + 1];
            if hearing.read_exact(&mut payload).await.is_err() {
                return;
            }
            if kind == frames::METHOD {
                let name = (u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]]));
                voice.say(&self.answer(u16::from_be_bytes([c1, c0]), name, &payload[4..])).await;
            }
        }
    }

    fn answer(&self, channel: u16, name: (u16, u16), arguments: &[u8]) -> Vec<u8> {
        let short = |from: &[u8]| from[..=usize::from(from[0])].to_vec();
        match name {
            (10, 11) => {
                let tune =
                    [&self.channel_max.to_be_bytes()[..], &131_072_u32.to_be_bytes(), &self.heartbeat_s.to_be_bytes()];
                method(0, (10, 30), &tune.concat())
            }
            (10, 40) => method(0, (10, 41), b"\0"),
            (10, 50) => method(0, (10, 51), b""),
            (20, 10) => method(channel, (20, 11), b"\0\0\0\0"),
            (20, 40) => method(channel, (20, 41), b""),
            (50, 10) => method(channel, (50, 11), b"\x01q\0\0\0\x05\0\0\0\0"),
            (60, 10) => method(channel, (60, 11), b""),
            (60, 20) => {
                let queue_bytes = 1 + usize::from(arguments[2]);
                let consume_ok = method(channel, (60, 21), &short(&arguments[2 + queue_bytes..]));
                [consume_ok, DELIVERY(channel).repeat(self.deliveries)].concat()
            }
            (60, 30) => method(channel, (60, 31), &short(arguments)),
            (60, 40) => method(channel, (60, 80), b"\0\0\0\0\0\0\0\x01\0"),
            (60, 70) => method(channel, (60, 72), b"\0"),
            (85, 10) => method(channel, (85, 11), b""),
            _ => Vec::new(),
        }
    }
}
