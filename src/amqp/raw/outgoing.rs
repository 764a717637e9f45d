//! The task that writes: frames in the order they were handed over, heartbeats in between.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::RawError;
use super::frame::{self, BODY, HEARTBEAT_FRAME, OVERHEAD_BYTES};
use super::method::CHANNEL;
use super::shared::Shared;
use super::stream::WriteHalf;

/// A body is cut into pieces of this size where the broker would take any.
const CHUNK_BYTES_MAX: usize = 128 << 10;

/// Frames, and the body that follows them, cut as the broker wants it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frames: Vec<u8>,
    pub(super) body: Option<Bytes>,
}

/// Writes until nobody has anything more to say or the connection breaks.
pub(super) async fn run(
    half: WriteHalf,
    mut queue: mpsc::Receiver<Outgoing>,
    shared: Arc<Shared>,
    frame_max: u32,
    heartbeat_s: u16,
) {
    let mut writer = BufWriter::with_capacity(32 << 10, half);
    // Twice as often as agreed, as the specification asks. Without heartbeats the ticks are far apart and unused.
    let period = Duration::from_millis(if heartbeat_s == 0 { 3_600_000 } else { u64::from(heartbeat_s) * 500 });
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            biased;
            next = queue.recv() => match next {
                Some(next) => next,
                None => break,
            },
            _ = ticks.tick() => Outgoing { frames: HEARTBEAT_FRAME.to_vec(), body: None },
        };
        if let Err(error) = write(&mut writer, &next, frame_max, queue.is_empty()).await {
            shared.end(RawError::lost(error));
            return;
        }
    }
    // The broker sees the end of the stream; that it can no longer answer is the point.
    let _ = writer.shutdown().await;
}

async fn write(writer: &mut BufWriter<WriteHalf>, out: &Outgoing, frame_max: u32, flush: bool) -> io::Result<()> {
    writer.write_all(&out.frames).await?;
    if let Some(body) = &out.body {
        for chunk in body.chunks(chunk_bytes(frame_max)) {
            let (head, end) = frame::around(BODY, CHANNEL, chunk.len());
            writer.write_all(&head).await?;
            writer.write_all(chunk).await?;
            writer.write_all(&end).await?;
        }
    }
    if flush { writer.flush().await } else { Ok(()) }
}

fn chunk_bytes(frame_max: u32) -> usize {
    match frame_max as usize {
        0 => CHUNK_BYTES_MAX,
        bytes => bytes.saturating_sub(OVERHEAD_BYTES).clamp(1, CHUNK_BYTES_MAX),
    }
}
