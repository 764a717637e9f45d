//! What lapin does with messages its types cannot hold: why nothing of it reads messages here. A new version of lapin that
//! does better fails here and says so.

use std::process::Command;

use dead_letter_office::amqp::convert;
use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Value};
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions};
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::types::FieldTable;
use lapin::{Connection, ErrorKind};

use super::broker::{Broker, WITHIN};

fn message(body: &'static str) -> RawMessage {
    RawMessage::amqp(AmqpProperties::default(), Headers::new(), body)
}

/// A string that is not UTF-8, wherever it stands, is a parsing error.
pub(super) async fn not_utf8(broker: &Broker) {
    let property = AmqpProperties { correlation_id: Some(super::bad()), ..Default::default() };
    let name: Headers = [(super::bad(), Value::Void)].into_iter().collect();
    for bad in
        [RawMessage::amqp(property, Headers::new(), "bad"), RawMessage::amqp(AmqpProperties::default(), name, "bad")]
    {
        let queue = broker.queue("q").await;
        broker.publish(&queue, &message("before")).await;
        broker.publish(&queue, &bad).await;
        broker.publish(&queue, &message("after")).await;
        let end = consume_to_the_end(broker, &queue).await;
        assert!(matches!(end, ErrorKind::ParsingError(_)), "{end:?}");
        assert_all_come_again(broker, &queue, &["before", "bad", "after"]).await;
    }
}

/// A frame above the agreed size is an error of lapin's own that looks like the broker's 501.
pub(super) async fn large_headers(broker: &Broker) {
    let (dead, _) = broker.dead_letter_beyond_frame_max().await;
    broker.publish(&dead, &message("after")).await;
    let end = consume_to_the_end(broker, &dead).await;
    let ErrorKind::ProtocolError(error) = &end else { panic!("{end:?}") };
    assert_eq!(*error.kind(), AMQPErrorKind::Hard(AMQPHardError::FRAMEERROR));
    assert!(error.get_message().as_str().starts_with("frame too large: "), "{error:?}");
    assert_all_come_again(broker, &dead, &["{}", "after"]).await;
}

/// Consumes by lapin until it fails, and returns how. Consuming itself may be what fails: the messages race with its
/// answer. Nothing that came before the failure can be acknowledged after it.
async fn consume_to_the_end(broker: &Broker, queue: &str) -> ErrorKind {
    let connection = broker.lapin().await;
    let channel = connection.create_channel().await.expect("a channel");
    let consume = channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    let mut received = Vec::new();
    let error = match consume.await {
        Err(error) => error,
        Ok(mut consumer) => {
            let error = loop {
                match tokio::time::timeout(WITHIN, consumer.next()).await.expect("lapin says something") {
                    Some(Ok(delivery)) => received.push(delivery),
                    Some(Err(error)) => break error,
                    None => panic!("the stream ends without an error"),
                }
            };
            let after = tokio::time::timeout(WITHIN, consumer.next()).await.expect("lapin says something");
            assert!(after.is_none(), "the error is the last item: {after:?}");
            error
        }
    };
    assert!(!connection.status().connected());
    for delivery in received {
        assert_ne!(delivery.data, b"bad");
        // `Ok(false)`, not an error: nothing was sent.
        assert!(!delivery.ack(BasicAckOptions::default()).await.expect("does not say why"));
    }
    channel.basic_get(queue.into(), Default::default()).await.expect_err("the connection is gone");
    error.kind().clone()
}

/// Every message is back in its queue, in its place, and marked as redelivered if lapin had read that far.
async fn assert_all_come_again(broker: &Broker, queue: &str, bodies: &[&str]) {
    broker.wait_for_messages(queue, bodies.len() as u32).await;
    let client = broker.raw().await;
    for body in bodies {
        let delivery = client.get(queue, WITHIN).await.expect("gets").expect("a message");
        assert_eq!(delivery.message.body.as_deref(), Some(body.as_bytes()));
        assert!(delivery.redelivered, "{body}");
        client.ack(delivery.tag, WITHIN).await.expect("acked");
    }
    client.close(WITHIN).await.expect("closed");
}

pub(super) async fn repeated_names(broker: &Broker) {
    let queue = broker.queue("q").await;
    let mut headers = Headers::new();
    headers.push("name", Value::I32(1));
    headers.push("name", Value::I32(2));
    broker.publish(&queue, &RawMessage::amqp(AmqpProperties::default(), headers, "")).await;
    let (_, headers) = get_by_lapin(&broker.lapin().await, &queue).await;
    assert_eq!(headers.len(), 1);
    // RabbitMQ 4 has dropped the second itself.
    assert_eq!(headers.get("name"), Some(&Value::I32(if broker.major < 4 { 2 } else { 1 })));
}

async fn get_by_lapin(connection: &Connection, queue: &str) -> (AmqpProperties, Headers) {
    let channel = connection.create_channel().await.expect("a channel");
    let got = channel.basic_get(queue.into(), Default::default()).await.expect("gets").expect("a message");
    convert::from_lapin(&got.delivery.properties)
}

const CHILD_ADDRESS: &str = "DLO_TEST_CHILD_ADDRESS";
const CHILD_QUEUE: &str = "DLO_TEST_CHILD_QUEUE";

/// Lapin reads tables by recursion on its own thread, `lapin-io-loop`, whose stack has the default size.
pub(super) async fn deep_nesting(broker: &Broker) {
    const LEVELS: usize = 10_000;
    let mut reversed = b"V".to_vec();
    for _ in 0..LEVELS {
        let length = reversed.len() as u32;
        reversed.extend(length.to_be_bytes().iter().rev());
        reversed.push(b'A');
    }
    reversed.reverse();
    let headers: Headers = [("deep".into(), Value::Opaque(reversed))].into_iter().collect();
    let message = RawMessage::amqp(AmqpProperties::default(), headers, "deep");
    let queue = broker.queue("q").await;
    broker.publish(&queue, &message).await;

    let by_default = read_in_child(broker, &queue, None);
    assert!(!by_default.status.success());
    let said = String::from_utf8_lossy(&by_default.stderr);
    assert!(said.contains("lapin-io-loop") && said.contains("overflowed its stack"), "{said}");

    broker.wait_for_messages(&queue, 1).await;
    let with_more = read_in_child(broker, &queue, Some("268435456"));
    assert!(with_more.status.success(), "{}", String::from_utf8_lossy(&with_more.stderr));

    broker.wait_for_messages(&queue, 1).await;
    let client = broker.raw().await;
    let delivery = client.get(&queue, WITHIN).await.expect("gets").expect("a message");
    client.ack(delivery.tag, WITHIN).await.expect("acked");
    // Read as the model holds it: taken apart to a depth, then kept.
    let again = client.publish(&"".into(), &queue.as_str().into(), &delivery.message, WITHIN).await.expect("published");
    assert_eq!(again, dead_letter_office::amqp::raw::PublishOutcome::Routed);
    assert_eq!(client.get(&queue, WITHIN).await.expect("gets").expect("a message").message, delivery.message);
}

fn read_in_child(broker: &Broker, queue: &str, stack_bytes: Option<&str>) -> std::process::Output {
    let mut child = Command::new(std::env::current_exe().expect("a path"));
    child.args(["--ignored", "--exact", "--nocapture", "amqp_raw::lapin_limits::child"]);
    child.env(CHILD_ADDRESS, broker.url()).env(CHILD_QUEUE, queue).env_remove("RUST_MIN_STACK");
    if let Some(bytes) = stack_bytes {
        child.env("RUST_MIN_STACK", bytes);
    }
    child.output().expect("runs")
}

#[tokio::test]
#[ignore = "run by deep_nesting in a process of its own"]
async fn child() {
    let variable = |name| std::env::var(name).expect("set by deep_nesting");
    let connection = Connection::connect(&variable(CHILD_ADDRESS), Default::default()).await.expect("connects");
    let (_, headers) = get_by_lapin(&connection, &variable(CHILD_QUEUE)).await;
    assert!(headers.contains("deep"));
}
