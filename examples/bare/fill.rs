//! A queue full of dead letters of one kilobyte.

use ::lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

pub(super) async fn fill(queue: &str, kind: &str, messages: u64) {
    let connection = Connection::connect(&super::url(), ConnectionProperties::default()).await.expect("connects");
    let channel = connection.create_channel().await.expect("a channel");
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), durable, arguments).await.expect("declared");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2)
        .with_message_id("0b9e4d2a-7f0a-4c38-9b8f-5c4b0e0a7d11".into())
        .with_headers(headers());
    let body = vec![b'x'; 1024];
    let mut confirms = Vec::new();
    for n in 1..=messages {
        let publish =
            channel.basic_publish("".into(), queue.into(), BasicPublishOptions::default(), &body, properties.clone());
        confirms.push(publish.await.expect("published"));
        if n % 1000 == 0 || n == messages {
            for confirm in confirms.drain(..) {
                confirm.await.expect("confirmed");
            }
        }
    }
}

/// Eight, as RabbitMQ leaves them on a message that died once.
fn headers() -> FieldTable {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut death = FieldTable::default();
    death.insert("count".into(), AMQPValue::LongLongInt(1));
    death.insert("reason".into(), text("rejected"));
    death.insert("queue".into(), text("orders.created"));
    death.insert("time".into(), AMQPValue::Timestamp(1_700_000_000));
    death.insert("exchange".into(), text("orders"));
    death.insert("routing-keys".into(), AMQPValue::FieldArray(vec![text("orders.created.eu")].into()));
    let mut headers = FieldTable::default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(vec![AMQPValue::FieldTable(death)].into()));
    headers.insert("x-first-death-exchange".into(), text("orders"));
    headers.insert("x-first-death-queue".into(), text("orders.created"));
    headers.insert("x-first-death-reason".into(), text("rejected"));
    headers.insert("traceparent".into(), text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    headers.insert("tenant".into(), text("acme"));
    headers.insert("attempt".into(), AMQPValue::LongInt(3));
    headers.insert("urgent".into(), AMQPValue::Boolean(true));
    headers
}
