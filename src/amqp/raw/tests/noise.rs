//! Bytes that no broker sends.

use std::sync::Arc;

use futures_util::FutureExt;
use proptest::prelude::*;
use tokio::sync::oneshot;

use super::super::RawError;
use super::super::consumer::Deliveries;
use super::super::demux::Demux;
use super::super::frame::FrameReader;
use super::super::shared::Shared;
use super::super::state::Consuming;
use super::peer::frame;

/// Takes bytes as the reading task does, with two channels open: one consumes, one waits for answers.
fn read(bytes: &[u8]) -> RawError {
    let shared = Arc::new(Shared::new(0));
    let consuming = shared.register().expect("open");
    consuming.lock().consumer = Some(Consuming { tag: "dlo-1".into(), deliveries: Arc::new(Deliveries::new(3)) });
    let asking = shared.register().expect("open");
    asking.lock().replies.extend((0..3).map(|_| oneshot::channel().0));
    let mut demux = Demux::new(shared);
    let mut frames = FrameReader::new(bytes);
    loop {
        match frames.next().now_or_never().expect("never waits") {
            Ok(frame) => {
                if let Err(error) = demux.frame(&frame).and_then(|()| demux.hand_over()) {
                    return error;
                }
            }
            Err(error) => return error,
        }
    }
}

/// Frames that get further than noise does.
fn likely_frames() -> impl Strategy<Value = Vec<u8>> {
    const METHODS: [(u16, u16); 24] = [
        (10, 10),
        (10, 30),
        (10, 41),
        (10, 60),
        (10, 61),
        (20, 11),
        (20, 20),
        (20, 40),
        (20, 41),
        (50, 11),
        (60, 11),
        (60, 21),
        (60, 30),
        (60, 31),
        (60, 50),
        (60, 60),
        (60, 60),
        (60, 60),
        (60, 71),
        (60, 72),
        (60, 80),
        (60, 120),
        (85, 11),
        (99, 99),
    ];
    let noise = || prop::collection::vec(prop_oneof![3 => 0u8..4, 1 => any::<u8>()], 0..40);
    let method = (prop::sample::select(METHODS.to_vec()), noise())
        .prop_map(|((class, method), rest)| (1, [&class.to_be_bytes()[..], &method.to_be_bytes(), &rest].concat()));
    let header = (prop_oneof![4 => 0u64..4, 1 => any::<u64>()], noise())
        .prop_map(|(size, rest)| (2, [&b"\0\x3c\0\0"[..], &size.to_be_bytes(), &rest].concat()));
    let body = prop::collection::vec(any::<u8>(), 0..4).prop_map(|payload| (3, payload));
    let other = (any::<u8>(), noise());
    let any_frame = prop_oneof![4 => method, 4 => header, 4 => body, 1 => other];
    prop::collection::vec((any_frame, 0u16..4), 0..30).prop_map(|frames| {
        frames.into_iter().flat_map(|((kind, payload), channel)| frame(kind, channel, &payload)).collect()
    })
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        read(&bytes);
    }

    #[test]
    fn any_frames_end_in_an_error(bytes in likely_frames()) {
        read(&bytes);
    }
}
