//! From RabbitMQ into the table, end to end.

use dead_letter_office::source::rabbitmq::topology::QueueType;

use crate::support::{
    SOON,
    capture::Plan,
    database::{Database, Tally},
    eventually,
    messages::{bodies, numbered},
    rabbit::Rabbit,
};

#[tokio::test]
async fn messages_become_rows_and_leave_the_queue() {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let queue = rabbit.queue(QueueType::Quorum).await;
    let messages = numbered(0, 2_000);
    rabbit.publish_to(&queue, &messages).await;

    let office = Plan::new(&rabbit, &database, &queue).start();
    eventually("all rows", SOON, async || (database.count().await == 2_000).then_some(())).await;
    office.stop().await;

    assert_eq!(database.failed().await, Tally::of(bodies(&messages)));
    rabbit.wait_for_empty(&queue).await;
}
