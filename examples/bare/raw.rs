//! Our own channel.

use std::{hint::black_box, num::NonZeroU16, time::Duration};

use dead_letter_office::{
    amqp::raw::{ConnectOptions, RawConnection},
    message::Headers,
};

const WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn consume(queue: &str, prefetch: u16, messages: u64) {
    let address = super::url().parse().expect("an address");
    let connection = RawConnection::connect(&address, &ConnectOptions::default(), WITHIN).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let prefetch = NonZeroU16::new(prefetch).expect("not zero");
    let mut consumer = channel.consume(queue, prefetch, &Headers::new(), WITHIN).await.expect("consumes");
    let mut last = 0;
    while last < messages {
        let delivery = consumer.next().await.expect("goes on").expect("a delivery");
        last = delivery.tag;
        black_box(delivery);
        if last.is_multiple_of(super::ACK_EVERY) || last == messages {
            channel.ack_up_to(last, WITHIN).await.expect("acked");
        }
    }
    // Its answer says that the acks have arrived.
    channel.ping(WITHIN).await.expect("answers");
}
