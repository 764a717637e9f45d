//! The client against a broker that does as it is told.

mod cut;
mod noise;
mod peer;

use std::num::NonZeroU16;
use std::time::Duration;

use super::{RawChannel, RawConsumer, RawError};
use crate::message::Headers;
use peer::{DELIVERY, Peer, WITHIN, connect, frame};

const PREFETCH: NonZeroU16 = NonZeroU16::new(2).unwrap();

async fn consumer(channel: &RawChannel) -> RawConsumer {
    channel.consume("q", PREFETCH, &Headers::new(), WITHIN).await.expect("consumes")
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_sends_more_than_the_prefetch_breaks_the_protocol() {
    let (connection, peer) = connect(Peer::default()).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let mut consumer = consumer(&channel).await;
    peer.say(&DELIVERY(1).repeat(3)).await;
    let ended = loop {
        match consumer.next().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(RawError::Protocol(_))), "{ended:?}");
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn what_comes_for_a_channel_nobody_has_is_ignored() {
    let (connection, peer) = connect(Peer::default()).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let mut consumer = consumer(&channel).await;
    peer.say(&DELIVERY(7)).await;
    peer.say(&frame(1, 7, &[0, 20, 0, 40, 1, 144, 0, 0, 0, 0, 0])).await;
    peer.say(&DELIVERY(1)).await;
    assert!(matches!(consumer.next().await, Ok(Some(_))));
    channel.ping(WITHIN).await.expect("still there");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_two_heartbeats() {
    let (connection, peer) = connect(Peer { heartbeat_s: 5, ..Peer::default() }).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let mut consumer = consumer(&channel).await;
    let since = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(9)).await;
    peer.say(&frame(8, 0, &[])).await;
    let ended = consumer.next().await;
    assert!(matches!(ended, Err(RawError::HeartbeatMissed(10))), "{ended:?}");
    assert_eq!(since.elapsed().as_secs(), 19);
    assert!(matches!(channel.ping(WITHIN).await, Err(RawError::HeartbeatMissed(_))));
    assert!(matches!(connection.open_channel(WITHIN).await, Err(RawError::HeartbeatMissed(_))));
}

#[tokio::test(start_paused = true)]
async fn numbers_of_closed_channels_are_used_again() {
    let (connection, _peer) = connect(Peer { channel_max: 2, ..Peer::default() }).await.expect("connects");
    let first = connection.open_channel(WITHIN).await.expect("a channel");
    for _ in 0..5 {
        let second = connection.open_channel(WITHIN).await.expect("another");
        let third = connection.open_channel(WITHIN).await;
        assert!(matches!(third, Err(RawError::NoChannel(2))), "{third:?}");
        second.close(WITHIN).await.expect("closes");
    }
    first.ping(WITHIN).await.expect("not disturbed");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_connection_says_so() {
    let (connection, peer) = connect(Peer::default()).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    assert_eq!(connection.blocked(), None);
    peer.say(&frame(1, 0, b"\0\x0a\0\x3c\x04disk")).await;
    channel.ping(WITHIN).await.expect("answers");
    assert_eq!(connection.blocked().as_deref(), Some("disk"));
    peer.say(&frame(1, 0, b"\0\x0a\0\x3d")).await;
    channel.ping(WITHIN).await.expect("answers");
    assert_eq!(connection.blocked(), None);
}

#[tokio::test(start_paused = true)]
async fn a_channel_has_one_consumer_at_a_time() {
    let (connection, peer) = connect(Peer::default()).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let mut first = consumer(&channel).await;
    let second = channel.consume("q", PREFETCH, &Headers::new(), WITHIN).await;
    assert!(matches!(second, Err(RawError::Consuming)), "{second:?}");
    peer.say(&DELIVERY(1)).await;
    channel.cancel(WITHIN).await.expect("cancelled");
    assert!(matches!(first.next().await, Ok(Some(_))), "it came before the end");
    assert!(matches!(first.next().await, Ok(None)));
    let mut second = consumer(&channel).await;
    drop(first);
    peer.say(&DELIVERY(1)).await;
    assert!(matches!(second.next().await, Ok(Some(_))));
    assert!(second.ready().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_consumer_dropped_with_deliveries_in_it_takes_its_channel_along() {
    let (connection, peer) = connect(Peer::default()).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let consumer = consumer(&channel).await;
    peer.say(&DELIVERY(1)).await;
    channel.cancel(WITHIN).await.expect("cancelled");
    drop(consumer);
    let acked = channel.ack_up_to(9, WITHIN).await;
    assert!(matches!(acked, Err(RawError::ClosedByUs)), "{acked:?}");
    assert!(connection.is_open());
}
