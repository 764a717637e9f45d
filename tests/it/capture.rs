//! From RabbitMQ into the table, end to end.

mod odd_bodies;
mod poison;
mod refused;
mod whole_row;

use dead_letter_office::source::rabbitmq::topology::QueueType;

use crate::support::{
    bench::Bench,
    database::Tally,
    messages::{bodies, numbered},
};

#[tokio::test]
async fn messages_become_rows_and_leave_the_queue() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let bench = Bench::with(queue_type).await;
        let messages = numbered(0, 3_000);

        bench.send_and_capture(&messages).await;

        assert_eq!(bench.database.failed().await, Tally::of(bodies(&messages)));
        assert_eq!(bench.database.count().await, 3_000);
    }
}
