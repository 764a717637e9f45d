//! A connection cut anywhere.

use super::super::{PublishOutcome, RawError};
use super::PREFETCH;
use super::peer::{Peer, WITHIN, connect};
use crate::message::{Headers, RawMessage};

/// A bit of everything. Returns what ended it, and how many bytes the broker had said by then.
async fn session(bytes: usize) -> (RawError, usize) {
    let (connection, peer) = match connect(Peer { bytes, deliveries: 2, ..Peer::default() }).await {
        Ok(connected) => connected,
        Err(error) => return (error, bytes),
    };
    let end = async {
        let channel = connection.open_channel(WITHIN).await?;
        let other = connection.open_channel(WITHIN).await?;
        let mut consumer = channel.consume("q", PREFETCH, &Headers::new(), WITHIN).await?;
        for _ in 0..2 {
            let delivery = consumer.next().await?.expect("nobody cancelled");
            assert_eq!(delivery.message.body.as_deref(), Some(&b"hello"[..]));
            channel.ack(delivery.tag, WITHIN).await?;
        }
        let published = other.publish(&"".into(), &"q".into(), &RawMessage::default(), WITHIN).await?;
        assert_eq!(published, PublishOutcome::Routed);
        // Several wait when it happens.
        let (count, got, pinged) =
            tokio::join!(other.message_count("q", WITHIN), other.get("q", WITHIN), channel.ping(WITHIN));
        assert_eq!((count?, got?), (5, None));
        pinged?;
        other.close(WITHIN).await?;
        if !connection.is_open() {
            // It was cut while the channel closed, which then is closed all the same.
            return Err(consumer.next().await.expect_err("cut"));
        }
        peer.hang_up().await;
        Err::<(), RawError>(consumer.next().await.expect_err("cut"))
    };
    let end = end.await.expect_err("cut");
    for opened in [connection.open_channel(WITHIN).await.map(drop), connection.close(WITHIN).await] {
        assert!(matches!(opened, Err(RawError::Lost(_))), "{opened:?}");
    }
    (end, peer.said().await)
}

#[tokio::test(start_paused = true)]
async fn a_connection_cut_anywhere_ends_everyone_who_waits() {
    let (end, all) = session(usize::MAX).await;
    assert!(matches!(end, RawError::Lost(_)), "{end:?}");
    assert!(all > 300, "{all} bytes");
    for bytes in 0..all {
        let (end, _) = session(bytes).await;
        assert!(matches!(end, RawError::Lost(_) | RawError::HungUp(_)), "after {bytes} bytes: {end:?}");
    }
}
