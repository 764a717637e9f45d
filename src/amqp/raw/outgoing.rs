//! The task that writes: frames in the order they were handed over, heartbeats in between.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

use super::RawError;
use super::frame::{self, BODY, HEARTBEAT_FRAME, OVERHEAD_BYTES};
use super::handshake::Agreed;
use super::outbox::Outgoing;
use super::shared::Shared;
use super::stream::WriteHalf;

/// A body is cut into pieces of this size where the broker would take any.
const CHUNK_BYTES_MAX: usize = 128 << 10;
/// For last words in both directions.
const GRACE: Duration = Duration::from_secs(1);

pub(super) struct Writing {
    writer: BufWriter<WriteHalf>,
    shared: Arc<Shared>,
    chunk_bytes: usize,
    heartbeats: Interval,
}

impl Writing {
    pub(super) fn new(half: WriteHalf, shared: Arc<Shared>, agreed: &Agreed) -> Self {
        let chunk_bytes = match agreed.frame_max as usize {
            0 => CHUNK_BYTES_MAX,
            bytes => bytes.saturating_sub(OVERHEAD_BYTES).clamp(1, CHUNK_BYTES_MAX),
        };
        // Twice as often as agreed, as the specification asks. Without heartbeats the ticks are far apart and unused.
        let heartbeat_ms = u64::from(agreed.heartbeat_s) * 500;
        let mut heartbeats = interval(Duration::from_millis(if heartbeat_ms == 0 { 3_600_000 } else { heartbeat_ms }));
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { writer: BufWriter::with_capacity(32 << 10, half), shared, chunk_bytes, heartbeats }
    }

    /// Writes until the connection ends; says so if it breaks here.
    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        let broken = tokio::select! {
            end = self.write_all() => end.err(),
            // A peer that no longer reads must not keep us.
            () = async { shared.over().await; sleep(GRACE).await } => None,
        };
        if let Some(error) = broken {
            // A broker that hangs up mostly says why first, which the reading task may be about to find.
            let _ = timeout(GRACE, shared.over()).await;
            shared.end(RawError::lost(error));
        }
    }

    async fn write_all(&mut self) -> io::Result<()> {
        loop {
            let batch = tokio::select! {
                biased;
                batch = self.shared.outbox.take() => batch,
                _ = self.heartbeats.tick() => Some(vec![Outgoing { frames: HEARTBEAT_FRAME.to_vec(), body: None }]),
            };
            // The broker sees the end of the stream; that it can no longer answer is the point.
            let Some(batch) = batch else { return self.writer.shutdown().await };
            for out in batch {
                self.write(&out).await?;
            }
            self.writer.flush().await?;
        }
    }

    async fn write(&mut self, out: &Outgoing) -> io::Result<()> {
        self.writer.write_all(&out.frames).await?;
        let mut written = out.frames.len();
        if let Some((channel, body)) = &out.body {
            for chunk in body.chunks(self.chunk_bytes) {
                let (head, end) = frame::around(BODY, *channel, chunk.len());
                self.writer.write_all(&head).await?;
                self.writer.write_all(chunk).await?;
                self.writer.write_all(&end).await?;
            }
            written += body.len();
        }
        self.shared.outbox.written(written);
        Ok(())
    }
}
