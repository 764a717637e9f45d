//! What is on its way to the socket.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Beyond this much, who can wait does so.
const BYTES_MAX: usize = 256 << 10;

/// Frames, and the body that follows them on a channel, cut as the broker wants it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frames: Vec<u8>,
    pub(super) body: Option<(u16, Bytes)>,
}

/// A queue for the writing task. Order is that of [`Outbox::push`], which never waits: what must be said without
/// waiting (that a channel is closed) is short and said once. The rest asks for [`Outbox::room`] first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    more: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Outgoing>,
    bytes: usize,
    closed: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes nowhere once closed.
    pub(super) fn push(&self, frames: Vec<u8>, body: Option<(u16, Bytes)>) {
        {
            let mut queue = self.lock();
            if queue.closed {
                return;
            }
            queue.bytes += frames.len() + body.as_ref().map_or(0, |(_, body)| body.len());
            match queue.waiting.last_mut() {
                // Acks that wait together go out together.
                Some(last) if last.body.is_none() => {
                    last.frames.extend_from_slice(&frames);
                    last.body = body;
                }
                _ => queue.waiting.push(Outgoing { frames, body }),
            }
        }
        self.more.notify_one();
    }

    /// Returns once there is room, or nothing can be sent any more. Cancel safe.
    pub(super) async fn room(&self) {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Before the look, so that no word is missed.
            room.as_mut().enable();
            {
                let queue = self.lock();
                if queue.closed || queue.bytes < BYTES_MAX {
                    return;
                }
            }
            room.await;
        }
    }

    /// Whether more frames wait, bodies aside, than those who ask for room can have left.
    pub(super) fn is_stuck(&self) -> bool {
        self.lock().waiting.iter().map(|out| out.frames.len()).sum::<usize>() > 4 * BYTES_MAX
    }

    /// All that waits; `None` when there is nothing and nothing will come. Cancel safe. For one task.
    pub(super) async fn take(&self) -> Option<Vec<Outgoing>> {
        loop {
            {
                let mut queue = self.lock();
                if !queue.waiting.is_empty() {
                    return Some(std::mem::take(&mut queue.waiting));
                }
                if queue.closed {
                    return None;
                }
            }
            self.more.notified().await;
        }
    }

    /// So many bytes are written.
    pub(super) fn written(&self, bytes: usize) {
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        drop(queue);
        self.room.notify_waiters();
    }

    /// Nothing more goes in; what is in may still come out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.more.notify_one();
        self.room.notify_waiters();
    }
}
