//! Several channels on one connection.

use dead_letter_office::amqp::raw::{PublishOutcome, RawChannel, RawConnection, RawConsumer, RawError};
use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Text};

use super::broker::{Broker, WITHIN, connect, prefetch};

const CHANNELS: usize = 20;

async fn channels(connection: &RawConnection) -> Vec<RawChannel> {
    let mut channels = Vec::new();
    for _ in 0..CHANNELS {
        channels.push(connection.open_channel(WITHIN).await.expect("a channel"));
    }
    channels
}

async fn queues(broker: &Broker) -> Vec<String> {
    let mut queues = Vec::new();
    for _ in 0..CHANNELS {
        queues.push(broker.queue("q").await);
    }
    queues
}

async fn publish(channel: &RawChannel, queue: &str, body: &str) {
    let message = RawMessage::amqp(AmqpProperties::default(), Headers::new(), body.to_owned());
    let outcome = channel.publish(&Text::default(), &queue.into(), &message, WITHIN).await.expect("published");
    assert_eq!(outcome, PublishOutcome::Routed);
}

async fn consume(channel: &RawChannel, queue: &str, n: u16) -> RawConsumer {
    channel.consume(queue, prefetch(n), &Headers::new(), WITHIN).await.expect("consumes")
}

async fn body(consumer: &mut RawConsumer) -> (u64, String) {
    let delivery = consumer.recv(WITHIN).await.expect("open").expect("a delivery");
    (delivery.tag, String::from_utf8(delivery.message.body.expect("a body").to_vec()).expect("text"))
}

/// Every queue keeps its order and gets its own messages, however deliveries and acks mix on the wire.
pub(super) async fn at_once(broker: &Broker) {
    const MESSAGES: usize = 40;
    let (queues, connection) = (queues(broker).await, broker.raw_connection().await);
    let channels = channels(&connection).await;
    let publishing = connection.open_channel(WITHIN).await.expect("a channel");
    let mut consumers = Vec::new();
    for (channel, queue) in channels.iter().zip(&queues) {
        consumers.push(consume(channel, queue, 7).await);
    }
    let sending = async {
        for n in 0..MESSAGES {
            for queue in &queues {
                publish(&publishing, queue, &format!("{queue} {n}")).await;
            }
        }
    };
    let receiving = consumers.iter_mut().zip(&channels).zip(&queues).map(|((consumer, channel), queue)| async move {
        for n in 0..MESSAGES {
            let (tag, body) = body(consumer).await;
            assert_eq!((tag, body), (n as u64 + 1, format!("{queue} {n}")));
            match n % 3 {
                0 => channel.ack(tag, WITHIN).await.expect("acked"),
                1 => {}
                _ => channel.ack_up_to(tag, WITHIN).await.expect("acked"),
            }
        }
        assert_eq!(consumer.ready(), None);
        channel.ping(WITHIN).await.expect("alive");
    });
    tokio::join!(sending, futures_util::future::join_all(receiving));
    drop(consumers);
    for queue in &queues {
        assert_eq!(publishing.message_count(queue, WITHIN).await.expect("counts"), 0);
    }
}

pub(super) async fn one_refusal(broker: &Broker) {
    let (queues, connection) = (queues(broker).await, broker.raw_connection().await);
    let channels = channels(&connection).await;
    let mut consumers = Vec::new();
    for (channel, queue) in channels.iter().zip(&queues) {
        consumers.push(consume(channel, queue, 7).await);
    }
    let refused = channels[7].message_count("no such queue", WITHIN).await;
    assert!(matches!(refused, Err(RawError::ChannelClosed { code: 404, .. })), "{refused:?}");
    assert!(!channels[7].is_open());
    let ended = consumers[7].next().await;
    assert!(matches!(ended, Err(RawError::ChannelClosed { code: 404, .. })), "{ended:?}");

    let publishing = connection.open_channel(WITHIN).await.expect("a channel, of the number that is free again");
    for (n, consumer) in consumers.iter_mut().enumerate().filter(|(n, _)| *n != 7) {
        publish(&publishing, &queues[n], "on it goes").await;
        let (tag, _) = body(consumer).await;
        channels[n].ack(tag, WITHIN).await.expect("acked");
        channels[n].ping(WITHIN).await.expect("alive");
    }
}

pub(super) async fn one_deletion(broker: &Broker) {
    let (queues, connection) = (queues(broker).await, broker.raw_connection().await);
    let channels = channels(&connection).await;
    let mut consumers = Vec::new();
    for (channel, queue) in channels.iter().zip(&queues) {
        consumers.push(consume(channel, queue, 7).await);
    }
    publish(&channels[3], &queues[3], "before").await;
    broker.delete_queue(&queues[3]).await;
    let (_, before) = body(&mut consumers[3]).await;
    assert_eq!(before, "before");
    for _ in 0..2 {
        let ended = consumers[3].next().await;
        assert!(matches!(ended, Err(RawError::ConsumerCancelled)), "{ended:?}");
    }
    for (n, consumer) in consumers.iter_mut().enumerate().filter(|(n, _)| *n != 3) {
        publish(&channels[3], &queues[n], "on it goes").await;
        body(consumer).await;
    }
}

/// At once, and while its connection lives on.
pub(super) async fn dropped(broker: &Broker) {
    let (queue, connection) = (broker.queue("q").await, broker.raw_connection().await);
    let (first, second) = (connection.open_channel(WITHIN).await, connection.open_channel(WITHIN).await);
    let (first, second) = (first.expect("a channel"), second.expect("a channel"));
    for n in 0..10 {
        publish(&second, &queue, &n.to_string()).await;
    }
    let mut consumer = consume(&first, &queue, 6).await;
    let (tag, _) = body(&mut consumer).await;
    body(&mut consumer).await;
    first.ack(tag, WITHIN).await.expect("acked");
    drop(first);
    // Its fate is known at once, also to whoever still holds its consumer.
    while consumer.ready().is_some() {}
    assert!(matches!(consumer.next().await, Err(RawError::ClosedByUs)));
    broker.wait_for_messages(&queue, 9).await;
    let mut consumer = consume(&second, &queue, 100).await;
    for n in 1..10 {
        assert_eq!(body(&mut consumer).await, (n, n.to_string()));
    }
}

pub(super) async fn window(broker: &Broker) {
    let queue = broker.queue("q").await;
    let channel = broker.raw().await;
    for n in 0..20 {
        publish(&channel, &queue, &n.to_string()).await;
    }
    let mut consumer = consume(&channel, &queue, 4).await;
    assert_eq!(body(&mut consumer).await, (1, "0".to_owned()));
    channel.cancel(WITHIN).await.expect("cancelled");
    channel.cancel(WITHIN).await.expect("nothing to cancel");
    let mut last = 1;
    while let Some(delivery) = consumer.next().await.expect("cancelled as asked") {
        last += 1;
        assert_eq!(delivery.tag, last);
    }
    assert_eq!(last, 4);
    // Unacknowledged ones of the first do not count against the second.
    consumer = channel.consume_soon(&queue, prefetch(8), &Headers::new()).expect("consumes");
    for n in 4..12 {
        assert_eq!(body(&mut consumer).await, (n + 1, n.to_string()));
    }
    channel.ping(WITHIN).await.expect("alive");
    assert_eq!(consumer.ready(), None);
    channel.ack_up_to(12, WITHIN).await.expect("acked");
    for n in 12..20 {
        assert_eq!(body(&mut consumer).await, (n + 1, n.to_string()));
    }
}

pub(super) async fn numbers(broker: &Broker) {
    let mut address = broker.address();
    address.channel_max = Some(3);
    let connection = connect(&address).await.expect("connects");
    let queue = broker.queue("q").await;
    let (first, second) = (connection.open_channel(WITHIN).await, connection.open_channel(WITHIN).await);
    let (first, _second) = (first.expect("a channel"), second.expect("a channel"));
    for n in 0..50 {
        let third = third(&connection).await;
        let fourth = connection.open_channel(WITHIN).await;
        assert!(matches!(fourth, Err(RawError::NoChannel(3))), "{fourth:?}");
        match n % 3 {
            0 => third.close(WITHIN).await.expect("closes"),
            1 => drop(third.message_count("no such queue", WITHIN).await.expect_err("refused")),
            _ => drop(consume(&third, &queue, 1).await),
        }
        first.ping(WITHIN).await.expect("alive");
    }
}

/// A channel that was dropped is counted until the broker has heard of it.
async fn third(connection: &RawConnection) -> RawChannel {
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(5));
    let opened = tokio::time::timeout(WITHIN, async {
        loop {
            pause.tick().await;
            match connection.open_channel(WITHIN).await {
                Err(RawError::NoChannel(3)) => {}
                opened => return opened.expect("a third channel"),
            }
        }
    });
    opened.await.expect("the broker closes what was dropped")
}
