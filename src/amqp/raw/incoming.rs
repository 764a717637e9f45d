//! The task that reads.

use std::time::Duration;

use tokio::time::timeout;

use super::RawError;
use super::demux::Demux;
use super::frame::FrameReader;
use super::stream::ReadHalf;

pub(super) struct Incoming {
    pub(super) frames: FrameReader<ReadHalf>,
    pub(super) demux: Demux,
    /// Zero is none.
    pub(super) heartbeat_s: u16,
}

impl Incoming {
    /// Reads until the connection ends, and says so to everyone who waits.
    pub(super) async fn run(mut self) {
        let shared = self.demux.shared.clone();
        let reason = tokio::select! {
            reason = async { self.read_all().await.err().unwrap_or(RawError::ClosedByUs) } => reason,
            // The writing task found it broken.
            () = shared.over() => RawError::ClosedByUs,
        };
        self.demux.finish(reason);
    }

    async fn read_all(&mut self) -> Result<(), RawError> {
        loop {
            while let Some(frame) = self.frames.take()? {
                self.demux.frame(&frame)?;
            }
            // What one read has brought goes on together.
            self.demux.hand_over()?;
            self.read().await?;
        }
    }

    /// Any byte is a sign of life, also of a frame that takes minutes to come.
    async fn read(&mut self) -> Result<(), RawError> {
        if self.heartbeat_s == 0 {
            return self.frames.read().await;
        }
        let silence_s = 2 * u64::from(self.heartbeat_s);
        let read = timeout(Duration::from_secs(silence_s), self.frames.read()).await;
        read.map_err(|_| RawError::HeartbeatMissed(silence_s))?
    }
}
