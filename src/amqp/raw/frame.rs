//! Frames: their bounds in a stream of bytes, and their making.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::RawError;

/// The largest frame that is read: the largest message RabbitMQ can be set to accept. The size agreed on binds what we
/// send only.
pub const FRAME_BYTES_MAX: usize = 512 << 20;

pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
pub(super) const HEARTBEAT: u8 = 8;
const END: u8 = 0xce;
/// Kind, channel, length.
const HEAD_BYTES: usize = 7;
/// What a frame is longer than its payload.
pub(super) const OVERHEAD_BYTES: usize = HEAD_BYTES + 1;
/// What one read may bring.
const READ_BYTES: usize = 128 << 10;
/// A buffer that grew beyond this for one frame is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// One frame in the buffer it was read into.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) channel: u16,
    pub(super) payload: &'a [u8],
}

/// Cuts a stream into frames. They are looked at where they were read to: no allocation and no system call for each.
pub(super) struct FrameReader<R> {
    stream: R,
    buffer: Vec<u8>,
    /// Where the first frame begins that was not taken.
    start: usize,
}

/// Where a frame lies that is all there.
struct Bounds {
    kind: u8,
    channel: u16,
    payload: std::ops::Range<usize>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new(), start: 0 }
    }

    /// The next frame. Safe to cancel: what was read stays in the buffer.
    pub(super) async fn next(&mut self) -> Result<Frame<'_>, RawError> {
        let bounds = loop {
            match self.bounds()? {
                Some(bounds) => break bounds,
                None => self.read().await?,
            }
        };
        Ok(self.cut(bounds))
    }

    /// The next frame if it is all there.
    pub(super) fn take(&mut self) -> Result<Option<Frame<'_>>, RawError> {
        Ok(self.bounds()?.map(|bounds| self.cut(bounds)))
    }

    /// Reads some bytes more. Safe to cancel.
    pub(super) async fn read(&mut self) -> Result<(), RawError> {
        self.make_room();
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(RawError::lost(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(RawError::lost(error)),
        }
    }

    /// For a read worth its system call. Grows as bytes arrive: the length of a frame is a claim, not a promise.
    fn make_room(&mut self) {
        // What is left is the beginning of one frame.
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.capacity() > KEPT_BYTES_MAX && self.buffer.len() < READ_BYTES {
            self.buffer.shrink_to(2 * READ_BYTES);
        }
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 2 {
            self.buffer.reserve(READ_BYTES);
        }
    }

    fn cut(&mut self, Bounds { kind, channel, payload }: Bounds) -> Frame<'_> {
        self.start = payload.end + 1;
        Frame { kind, channel, payload: &self.buffer[payload] }
    }

    fn bounds(&self) -> Result<Option<Bounds>, RawError> {
        let bytes = &self.buffer[self.start..];
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [kind, c1, c0, l3, l2, l1, l0] = *head;
        // "AMQP" and a version: the broker's way to refuse ours.
        if head.starts_with(b"AMQP") {
            return Err(RawError::Protocol("it does not speak AMQP 0-9-1"));
        }
        let length = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(RawError::Protocol("a frame is larger than 512 MiB"));
        }
        match bytes.get(HEAD_BYTES + length) {
            None => Ok(None),
            Some(&END) => {
                let start = self.start + HEAD_BYTES;
                Ok(Some(Bounds { kind, channel: u16::from_be_bytes([c1, c0]), payload: start..start + length }))
            }
            Some(_) => Err(RawError::Protocol("a frame does not end where it should")),
        }
    }
}

/// Appends a frame whose payload `write` appends; what it leaves behind when it refuses is no frame. A payload beyond
/// four gigabytes cannot come up: the codec refuses such parts, and bodies are cut into chunks.
pub(super) fn append<E>(
    out: &mut Vec<u8>,
    kind: u8,
    channel: u16,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - start - HEAD_BYTES) as u32;
    out[start + 3..start + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    out.push(END);
    Ok(())
}

/// A frame around a payload that is already there.
pub(super) fn whole(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let (head, end) = around(kind, channel, payload.len());
    [&head[..], payload, &end].concat()
}

/// The bytes in front of a payload, and the one behind.
pub(super) fn around(kind: u8, channel: u16, length: usize) -> ([u8; HEAD_BYTES], [u8; 1]) {
    let [c1, c0] = channel.to_be_bytes();
    let [l3, l2, l1, l0] = (length as u32).to_be_bytes();
    ([kind, c1, c0, l3, l2, l1, l0], [END])
}

pub(super) const HEARTBEAT_FRAME: [u8; OVERHEAD_BYTES] = [HEARTBEAT, 0, 0, 0, 0, 0, 0, END];

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_cut_wherever_the_stream_breaks() {
        let bytes = [whole(METHOD, 1, b"abc"), HEARTBEAT_FRAME.to_vec(), whole(BODY, 1, &[7; 300_000])].concat();
        for step in [1, 2, 5, 11, 70_000] {
            let chunks = bytes.chunks(step).map(|c| Ok(c.to_vec())).collect::<Vec<std::io::Result<Vec<u8>>>>();
            let mut mock = in_chunks(chunks);
            let mut reader = FrameReader::new(&mut mock);
            for (kind, length) in [(METHOD, 3), (HEARTBEAT, 0), (BODY, 300_000)] {
                let frame = reader.next().await.expect("a frame");
                assert_eq!((frame.kind, frame.payload.len()), (kind, length));
            }
            assert!(matches!(reader.next().await, Err(RawError::Lost(_))));
        }
    }

    /// A reader that hands out one chunk a call.
    fn in_chunks(chunks: Vec<std::io::Result<Vec<u8>>>) -> impl AsyncRead + Unpin {
        struct Chunks(std::vec::IntoIter<std::io::Result<Vec<u8>>>);
        impl AsyncRead for Chunks {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                if let Some(chunk) = self.0.next() {
                    let chunk = chunk?;
                    let fits = chunk.len().min(buffer.remaining());
                    buffer.put_slice(&chunk[..fits]);
                    if fits < chunk.len() {
                        let rest = std::iter::once(Ok(chunk[fits..].to_vec()));
                        self.0 = rest.chain(std::mem::take(&mut self.0)).collect::<Vec<_>>().into_iter();
                    }
                }
                std::task::Poll::Ready(Ok(()))
            }
        }
        Chunks(chunks.into_iter())
    }

    #[tokio::test]
    async fn a_length_is_not_believed_and_a_large_buffer_is_not_kept() {
        let claim = [&[BODY, 0, 1][..], &(FRAME_BYTES_MAX as u32).to_be_bytes(), &[7; 9]].concat();
        let mut reader = FrameReader::new(&claim[..]);
        assert!(matches!(reader.next().await, Err(RawError::Lost(_))));
        assert!(reader.buffer.capacity() < 1 << 20, "{}", reader.buffer.capacity());

        let bytes = [whole(BODY, 1, &vec![7; 8 << 20]), whole(METHOD, 1, b"abc"), whole(METHOD, 1, b"abc")].concat();
        let mut reader = FrameReader::new(&bytes[..]);
        for length in [8 << 20, 3, 3] {
            assert_eq!(reader.next().await.expect("a frame").payload.len(), length);
        }
        reader.read().await.expect_err("the end");
        assert!(reader.buffer.capacity() <= KEPT_BYTES_MAX, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn what_is_no_frame_is_an_error() {
        for bytes in [&b"AMQP\0\x01\0\0"[..], b"\x01\0\0\x7f\xff\xff\xff\0", b"\x01\0\0\0\0\0\x01xx"] {
            assert!(matches!(FrameReader::new(bytes).next().await, Err(RawError::Protocol(_))), "{bytes:?}");
        }
    }
}
