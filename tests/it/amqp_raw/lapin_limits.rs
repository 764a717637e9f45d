//! What lapin does with messages its types cannot hold. The RabbitMQ source relies on every word of this.

use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Text, Value};
use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;

use super::broker::{Broker, WITHIN};

fn message(body: &'static str) -> RawMessage {
    RawMessage::amqp(AmqpProperties::default(), Headers::new(), body)
}

pub(super) async fn not_utf8(broker: &Broker) {
    let queue = broker.queue("").await;
    broker.publish(&queue, &message("before")).await;
    let properties = AmqpProperties { correlation_id: Some(super::bad()), ..Default::default() };
    broker.publish(&queue, &RawMessage::amqp(properties, Headers::new(), "bad")).await;
    broker.publish(&queue, &message("after")).await;
    observe(broker, &queue).await;
}

pub(super) async fn large_headers(broker: &Broker) {
    let (dead, _) = broker.dead_letter_beyond_frame_max().await;
    broker.publish(&dead, &message("after")).await;
    observe(broker, &dead).await;
}

async fn observe(broker: &Broker, queue: &str) {
    let connection = broker.lapin().await;
    let channel = connection.create_channel().await.expect("a channel");
    channel.basic_qos(10, BasicQosOptions::default()).await.expect("qos");
    let options = BasicConsumeOptions::default();
    let consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await;
    let mut consumer = match consumer {
        Ok(c) => c,
        Err(e) => {
            eprintln!("basic_consume: {:?}", e.kind());
            return;
        }
    };
    loop {
        match tokio::time::timeout(std::time::Duration::from_secs(5), consumer.next()).await {
            Err(_) => {
                eprintln!("  stream: silent");
                break;
            }
            Ok(None) => {
                eprintln!("  stream: None");
                break;
            }
            Ok(Some(Ok(d))) => {
                eprintln!("  stream: Ok {:?} redelivered {}", String::from_utf8_lossy(&d.data), d.redelivered)
            }
            Ok(Some(Err(e))) => eprintln!("  stream: Err {:?} can_be_recovered {}", e.kind(), e.can_be_recovered()),
        }
    }
    eprintln!("  connection {:?} channel {:?}", connection.status(), channel.status());
    let raw = broker.raw().await;
    eprintln!("  count {}", raw.message_count(queue, WITHIN).await.expect("counts"));
    drop((consumer, channel));
    let closed = connection.close(200, "".into()).await;
    eprintln!("  close {closed:?}; count {}", raw.message_count(queue, WITHIN).await.expect("counts"));
    while let Some(d) = raw.get(queue, WITHIN).await.expect("gets") {
        eprintln!("  raw {:?} redelivered {}", d.message.body.as_ref().map(|b| b.len()), d.redelivered);
    }
}

pub(super) async fn repeated_names(broker: &Broker) {
    let queue = broker.queue("").await;
    let mut headers = Headers::new();
    headers.push("name", Value::I32(1));
    headers.push("name", Value::I32(2));
    broker.publish(&queue, &RawMessage::amqp(AmqpProperties::default(), headers, "")).await;
    let connection = broker.lapin().await;
    let channel = connection.create_channel().await.expect("a channel");
    let got = channel.basic_get(queue.as_str().into(), Default::default()).await.expect("gets").expect("a message");
    eprintln!("lapin {:?}", got.delivery.properties.headers());
    let _ = Text::default();
}
