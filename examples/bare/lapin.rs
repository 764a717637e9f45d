//! The client everyone uses.

use std::hint::black_box;

use ::lapin::{
    Connection, ConnectionProperties,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use dead_letter_office::{amqp::convert, message::RawMessage};
use futures_util::StreamExt;

pub(super) async fn consume(queue: &str, prefetch: u16, messages: u64, convert: bool) {
    let connection = Connection::connect(&super::url(), ConnectionProperties::default()).await.expect("connects");
    let channel = connection.create_channel().await.expect("a channel");
    channel.basic_qos(prefetch, BasicQosOptions::default()).await.expect("a prefetch");
    let consume = channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    let mut consumer = consume.await.expect("consumes");
    let mut last = 0;
    while last < messages {
        let delivery = consumer.next().await.expect("goes on").expect("a delivery");
        last = delivery.delivery_tag;
        if convert {
            let (properties, headers) = convert::from_lapin(&delivery.properties);
            black_box(RawMessage::amqp(properties, headers, delivery.data));
        } else {
            black_box(delivery);
        }
        if last.is_multiple_of(super::ACK_EVERY) || last == messages {
            channel.basic_ack(last, BasicAckOptions { multiple: true }).await.expect("acked");
        }
    }
    // Its answer says that the acks have arrived.
    channel.basic_qos(1, BasicQosOptions::default()).await.expect("answers");
}
