//! `amqp::raw` and `amqp::convert` against real brokers: RabbitMQ 3 always, RabbitMQ 4 where it is up.

#![expect(clippy::expect_used, reason = "a test stops where it cannot go on")]

mod broker;
mod channels;
mod frozen;
mod lapin_limits;
mod standing;
mod tls;
mod values;

use std::time::Duration;

use bytes::Bytes;
use dead_letter_office::amqp::raw::{PublishOutcome, RawError};
use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Text, Value};
use futures_util::FutureExt;

use broker::{Broker, WITHIN, prefetch};

/// Runs a scenario as a test of its own on every broker version.
macro_rules! on_each_broker {
    ($($scenario:path => $name:ident),* $(,)?) => {
        mod on_rabbitmq_3 {
            $(#[tokio::test]
            async fn $name() {
                $scenario(&super::Broker::three().await).await;
            })*
        }
        mod on_rabbitmq_4 {
            $(#[tokio::test]
            async fn $name() {
                match super::Broker::four().await {
                    Some(broker) => $scenario(&broker).await,
                    None => eprintln!("skipped: no RabbitMQ 4"),
                }
            })*
        }
    };
}

on_each_broker! {
    super::strings => strings_that_are_not_utf8_come_back_as_they_were_sent,
    super::bodies => bodies_of_any_size_come_back_as_they_were_sent,
    super::outcomes => an_unroutable_message_is_returned_and_a_missing_exchange_closes_the_channel,
    super::large_headers => headers_grown_past_the_frame_size_are_read,
    super::gone_queue => a_consumer_hears_that_its_queue_is_gone,
    super::acks => what_is_not_acknowledged_comes_again,
    super::idle => an_idle_connection_outlives_its_heartbeats,
    super::refused => a_refusal_says_why,
    super::given_up => a_publish_that_is_given_up_spends_the_channel,
    super::channels::at_once => twenty_channels_consume_at_once,
    super::channels::one_refusal => a_refusal_on_one_channel_leaves_the_others,
    super::channels::one_deletion => a_deleted_queue_cancels_its_consumer_only,
    super::channels::dropped => a_dropped_channel_gives_its_messages_back,
    super::channels::window => a_channel_consumes_anew_with_another_prefetch,
    super::channels::numbers => numbers_of_closed_channels_are_used_again,
    super::frozen::heartbeats => a_frozen_link_ends_with_the_second_missed_heartbeat,
    super::standing::shared => a_broker_has_one_standing_connection,
    super::standing::nobody => a_broker_that_is_away_says_so,
    super::tls::certificates => tls_checks_certificates_on_both_sides,
    super::values::letters => every_type_of_value_comes_back_as_it_was_sent,
    super::values::odd_tables => odd_tables_do_what_is_written_down_here,
    super::lapin_limits::not_utf8 => lapin_ends_its_connection_over_a_string_that_is_not_utf8,
    super::lapin_limits::large_headers => lapin_ends_its_connection_over_a_large_frame,
    super::lapin_limits::repeated_names => lapin_loses_all_but_one_header_of_a_name,
    super::lapin_limits::deep_nesting => lapin_aborts_the_process_over_deep_nesting,
}

/// Not UTF-8, with a NUL and every kind of wrong byte.
const BAD: &[u8] = b"\xde\xad\xbe\xef\xff\xfe\x00\xc3(";

fn bad() -> Text {
    Text::from(BAD)
}

async fn strings(broker: &Broker) {
    let queue = broker.queue("q").await;
    let exchange = broker.fanout_to(&queue).await;
    let client = broker.raw().await;
    let properties = AmqpProperties {
        content_type: Some(bad()),
        correlation_id: Some(bad()),
        reply_to: Some(bad()),
        message_id: Some(bad()),
        kind: Some(bad()),
        app_id: Some(bad()),
        ..Default::default()
    };
    let mut headers = Headers::new();
    headers.push(bad(), Value::Str(bad()));
    headers.push("bytes", Value::Bytes(BAD.to_vec()));
    headers.push("nested", Value::Array(vec![Value::Table([(bad(), Value::Str(bad()))].into_iter().collect())]));
    let message = RawMessage::amqp(properties, headers, BAD);

    let outcome = client.publish(&exchange.as_str().into(), &bad(), &message, WITHIN).await.expect("published");
    assert_eq!(outcome, PublishOutcome::Routed);

    let mut consumer = client.consume(&queue, prefetch(5), &Headers::new(), WITHIN).await.expect("consumes");
    let delivery = consumer.recv(WITHIN).await.expect("open").expect("a delivery");
    assert_eq!(delivery.routing_key, bad());
    assert_eq!(delivery.exchange, exchange.as_str());
    assert!(!delivery.redelivered);
    values::assert_same_headers(broker, &delivery.message.headers, &message.headers);
    assert_eq!(delivery.message.properties, message.properties);
    assert_eq!(delivery.message.body, message.body);
    client.ack(delivery.tag, WITHIN).await.expect("acked");
    client.cancel(WITHIN).await.expect("cancelled");
    assert_eq!(client.message_count(&queue, WITHIN).await.expect("counts"), 0);
    client.close(WITHIN).await.expect("closed");
}

async fn bodies(broker: &Broker) {
    let queue = broker.queue("q").await;
    let client = broker.raw().await;
    let frame_body = client.frame_max() as usize - 8;
    for size in [0, 1, frame_body - 1, frame_body, frame_body + 1, 64 << 20] {
        let body: Bytes = (0..size).map(|i| (i % 251) as u8).collect();
        let message = RawMessage::amqp(AmqpProperties::default(), Headers::new(), body);
        let outcome = client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).await;
        assert_eq!(outcome.expect("published"), PublishOutcome::Routed, "{size} bytes");
        let delivery = client.get(&queue, WITHIN).await.expect("gets").expect("a message");
        assert!(delivery.message == message, "{size} bytes");
        client.ack(delivery.tag, WITHIN).await.expect("acked");
    }
    assert_eq!(client.get(&queue, WITHIN).await.expect("gets"), None);
}

async fn outcomes(broker: &Broker) {
    let client = broker.raw().await;
    let message = RawMessage::amqp(AmqpProperties::default(), Headers::new(), vec![7; 300_000]);
    let nowhere = Text::from(broker::name("nowhere"));
    for _ in 0..2 {
        let outcome = client.publish(&Text::default(), &nowhere, &message, WITHIN).await.expect("answered");
        assert_eq!(outcome, PublishOutcome::Returned { code: 312, text: "NO_ROUTE".into() });
    }
    // A return does not colour the next verdict.
    let queue = broker.queue("q").await;
    let outcome = client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).await.expect("answered");
    assert_eq!(outcome, PublishOutcome::Routed);

    let missing = client.publish(&nowhere, &Text::default(), &message, WITHIN).await.expect("answered");
    assert!(matches!(&missing, PublishOutcome::ChannelClosed { code: 404, text } if text.contains("NOT_FOUND")));
    let after = client.publish(&Text::default(), &nowhere, &message, WITHIN).await;
    assert!(matches!(after, Err(RawError::ChannelClosed { code: 404, .. })), "{after:?}");

    let too_large = RawMessage::amqp(
        AmqpProperties::default(),
        [("h".into(), Value::Bytes(vec![0; 200_000]))].into_iter().collect(),
        "",
    );
    let client = broker.raw().await;
    let refused = client.publish(&Text::default(), &queue.as_str().into(), &too_large, WITHIN).await;
    assert!(matches!(refused, Err(RawError::HeadersTooLong { frame_max: 131_072, .. })), "{refused:?}");
    let outcome = client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).await.expect("answered");
    assert_eq!(outcome, PublishOutcome::Routed, "the refusal cost nothing");
}

async fn large_headers(broker: &Broker) {
    let (dead, large) = broker.dead_letter_beyond_frame_max().await;
    let client = broker.raw().await;
    let mut consumer = client.consume(&dead, prefetch(5), &Headers::new(), WITHIN).await.expect("consumes");
    let delivery = consumer.recv(WITHIN).await.expect("open").expect("a delivery");
    assert_eq!(delivery.message.headers.get("large"), Some(&large));
    assert!(delivery.message.headers.get("x-death").is_some_and(|v| v.as_array().is_some()));
    client.ack(delivery.tag, WITHIN).await.expect("acked");

    let again = client.publish(&Text::default(), &dead.as_str().into(), &delivery.message, WITHIN).await;
    assert!(matches!(again, Err(RawError::HeadersTooLong { .. })), "{again:?}");
}

async fn gone_queue(broker: &Broker) {
    let queue = broker.queue("q").await;
    let client = broker.raw().await;
    let mut consumer = client.consume(&queue, prefetch(5), &Headers::new(), WITHIN).await.expect("consumes");
    assert_eq!(consumer.recv(Duration::from_millis(1)).await.expect("open"), None);
    broker.delete_queue(&queue).await;
    let ended = consumer.recv(WITHIN).await;
    assert!(matches!(ended, Err(RawError::ConsumerCancelled)), "{ended:?}");
    let count = client.message_count(&queue, WITHIN).await;
    assert!(matches!(count, Err(RawError::ChannelClosed { code: 404, .. })), "{count:?}");
}

async fn acks(broker: &Broker) {
    let queue = broker.queue("q").await;
    let client = broker.raw().await;
    for n in 0..6u8 {
        let message = RawMessage::amqp(AmqpProperties::default(), Headers::new(), vec![n]);
        client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).await.expect("published");
    }
    let mut consumer = client.consume(&queue, prefetch(4), &Headers::new(), WITHIN).await.expect("consumes");
    let mut tags = Vec::new();
    for n in 0..4u8 {
        let delivery = consumer.recv(WITHIN).await.expect("open").expect("a delivery");
        assert_eq!(delivery.message.body.as_deref(), Some(&[n][..]));
        tags.push(delivery.tag);
    }
    assert_eq!(consumer.recv(Duration::from_millis(50)).await.expect("open"), None, "the prefetch is used up");
    client.ack_up_to(tags[2], WITHIN).await.expect("acked");
    let fifth = consumer.recv(WITHIN).await.expect("open").expect("a delivery");
    client.ack(fifth.tag, WITHIN).await.expect("acked");
    client.close(WITHIN).await.expect("closed");
    assert!(matches!(consumer.recv(WITHIN).await, Ok(Some(_))), "the sixth had come before the end");
    assert!(matches!(consumer.recv(WITHIN).await, Err(RawError::ClosedByUs)));

    let client = broker.raw().await;
    let mut again = Vec::new();
    while let Some(delivery) = client.get(&queue, WITHIN).await.expect("gets") {
        again.push((delivery.message.body.expect("a body")[0], delivery.redelivered));
    }
    assert_eq!(again, [(3, true), (5, true)]);
}

/// Waits on purpose: silence is what is tested.
async fn idle(broker: &Broker) {
    let queue = broker.queue("q").await;
    let mut address = broker.address();
    address.heartbeat_s = Some(1);
    let client = broker.raw_to(&address).await.expect("connects");
    let mut consumer = client.consume(&queue, prefetch(1), &Headers::new(), WITHIN).await.expect("consumes");
    assert_eq!(consumer.recv(Duration::from_secs(5)).await.expect("open"), None);
    client.message_count(&queue, WITHIN).await.expect("still there");
}

async fn refused(broker: &Broker) {
    let mut address = broker.address();
    address.vhost = "no such vhost".into();
    let refused = broker.raw_to(&address).await.expect_err("refused");
    assert!(
        matches!(&refused, RawError::ConnectionClosed { code: 530, text } if text.contains("no such vhost")),
        "{refused:?}"
    );
    let mut address = broker.address();
    address.password = Some(dead_letter_office::amqp::uri::Password::new("wrong"));
    let refused = broker.raw_to(&address).await.expect_err("refused");
    assert!(matches!(refused, RawError::ConnectionClosed { code: 403, .. }), "{refused:?}");
    address.auth = dead_letter_office::amqp::uri::Auth::External;
    let refused = broker.raw_to(&address).await.expect_err("refused");
    assert!(matches!(refused, RawError::Mechanism("EXTERNAL")), "{refused:?}");
}

async fn given_up(broker: &Broker) {
    let queue = broker.queue("q").await;
    let client = broker.raw().await;
    let message = RawMessage::amqp(AmqpProperties::default(), Headers::new(), vec![7; 1 << 20]);
    client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).await.expect("published");
    // Asked once, which sends it, and then dropped: no broker answers between the two.
    let late = client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).now_or_never();
    assert!(late.is_none(), "{late:?}");
    let next = client.publish(&Text::default(), &queue.as_str().into(), &message, WITHIN).await;
    assert!(matches!(next, Err(RawError::Deadline("basic.publish"))), "{next:?}");
}
