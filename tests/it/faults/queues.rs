//! The queue is missing, somebody else's, of another kind, or goes away.

use std::time::{Duration, Instant};

use dead_letter_office::source::rabbitmq::topology::{Queue, QueueType};
use lapin::{
    ExchangeKind,
    options::{BasicConsumeOptions, BasicQosOptions},
    types::{AMQPValue, FieldTable},
};

use crate::support::{SOON, bench::Bench, capture::Office, eventually, messages::numbered};

async fn trouble(office: &Office, words: &str) -> String {
    eventually(&format!("trouble about {words}"), SOON, async || {
        office.metrics.trouble().filter(|why| why.contains(words))
    })
    .await
}

#[tokio::test]
async fn a_missing_queue_is_named_and_taken_from_once_it_is_there() {
    let mut bench = Bench::new().await;
    bench.queue = bench.rabbit.queue_name();
    let office = bench.plan().start();

    let why = trouble(&office, "does not exist").await;
    assert!(why.contains(&bench.queue), "{why}");
    bench.rabbit.declare(&bench.queue, QueueType::Quorum, []).await;
    let published = bench.publish_numbered(20).await;
    bench.captured(&published).await;
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0);
}

#[tokio::test]
async fn a_queue_that_is_deleted_and_made_again_is_taken_from_again() {
    let bench = Bench::new().await;
    let office = bench.plan().start();
    let published = numbered(0, 200);
    bench.rabbit.publish_to(&bench.queue, &published[..100]).await;
    bench.captured(&published[..100]).await;
    bench.rabbit.wait_for_ready(&bench.queue, 0).await;

    assert!(bench.rabbit.management.delete_queue(&bench.queue).await);
    trouble(&office, "does not exist").await;
    bench.rabbit.declare(&bench.queue, QueueType::Classic, []).await;
    bench.rabbit.publish_to(&bench.queue, &published[100..]).await;
    bench.captured(&published).await;
    office.stop().await;

    bench.exactly(&published).await;
}

#[tokio::test]
async fn a_queue_of_our_own_that_is_deleted_is_declared_anew() {
    let mut bench = Bench::new().await;
    bench.queue = bench.rabbit.queue_name();
    let exchange = bench.rabbit.exchange_name();
    let mut plan = bench.plan();
    plan.queue = Queue { name: bench.queue.clone(), exchange: Some(exchange.clone()), queue_type: QueueType::Quorum };
    let office = plan.start();
    office.receiving().await;

    assert!(bench.rabbit.management.delete_queue(&bench.queue).await);
    eventually("a session on the new queue", SOON, async || (bench.sessions().await >= 2).then_some(())).await;
    office.receiving().await;
    let published = numbered(0, 50);
    bench.rabbit.publish(&exchange, "any.key", &published).await;
    bench.captured(&published).await;
    let declared = bench.rabbit.management.queue(&bench.queue).await.expect("declared");
    assert_eq!(declared["arguments"]["x-queue-type"], "quorum");
    assert_eq!(declared["arguments"]["x-delivery-limit"], 2_000_000_000);
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0);
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_explained_and_can_be_taken_from_as_it_is() {
    let mut bench = Bench::new().await;
    let exchange = bench.rabbit.exchange(ExchangeKind::Topic).await;
    let limits = [("x-max-length", AMQPValue::LongInt(10_000)), ("x-single-active-consumer", AMQPValue::Boolean(true))];
    bench.queue = bench.rabbit.queue_with(QueueType::Quorum, limits).await;
    let published = bench.publish_numbered(30).await;
    let mut plan = bench.plan();
    plan.queue = Queue { name: bench.queue.clone(), exchange: Some(exchange), queue_type: QueueType::Quorum };
    let ours = plan.start();
    let why = trouble(&ours, "exists with other settings").await;
    assert!(why.contains(&bench.queue) && why.contains("x-max-length"), "{why}");
    ours.stop().await;

    let as_it_is = bench.plan().start();
    bench.captured(&published).await;
    as_it_is.stop().await;

    assert_eq!(bench.exactly(&published).await, 0);
}

#[tokio::test]
async fn a_stream_is_refused_in_plain_words_empty_or_not() {
    let mut bench = Bench::new().await;
    for messages in [0, 100] {
        bench.queue = bench.rabbit.queue_name();
        bench.rabbit.declare_kind(&bench.queue, "stream", []).await;
        bench.publish_numbered(messages).await;
        let office = bench.plan().start();

        trouble(&office, "the queue is a stream").await;

        assert_eq!(bench.database.count().await, 0);
        office.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_once_came_from_a_stream_is_no_stream() {
    let bench = Bench::new().await;
    let table = crate::support::messages::headers([("x-stream-offset", dead_letter_office::message::Value::I64(7))]);
    let message = dead_letter_office::message::RawMessage::amqp(Default::default(), table, "{}");

    let letters = bench.send_and_capture(&[message]).await;

    assert_eq!(letters.len(), 1);
}

/// Waits on purpose: it is how often is asked that is tested.
#[tokio::test]
async fn a_queue_that_another_consumer_has_to_itself_is_asked_for_less_and_less_often() {
    let bench = Bench::with(QueueType::Classic).await;
    let holder = bench.rabbit.lapin().await;
    let channel = holder.create_channel().await.expect("a channel");
    channel.basic_qos(1, BasicQosOptions::default()).await.expect("qos");
    let exclusive = BasicConsumeOptions { exclusive: true, ..BasicConsumeOptions::default() };
    let consumer =
        channel.basic_consume(bench.queue.as_str().into(), "".into(), exclusive, FieldTable::default()).await;
    let consumer = consumer.expect("consumes");
    let office = bench.plan().start();
    let why = trouble(&office, "403").await;
    assert!(why.contains("exclusive"), "{why}");

    let since = Instant::now();
    eventually("some time", SOON, async || (since.elapsed() > Duration::from_secs(6)).then_some(())).await;
    let attempts = bench.sessions().await;
    assert!(attempts <= 7, "{attempts} attempts in 6 s");
    let closed: i64 =
        bench.database.scalar("SELECT count(*) FROM dlo_capture_sessions WHERE closed_at IS NOT NULL").await;
    assert!(attempts - closed <= 1, "an attempt that failed leaves no session open");
    drop((consumer, channel));
    holder.close(200, "".into()).await.expect("closed");
    let published = bench.publish_numbered(10).await;
    bench.captured(&published).await;
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0);
}
