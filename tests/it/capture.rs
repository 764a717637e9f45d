//! From RabbitMQ into the table, end to end.

mod odd_bodies;
mod poison;
mod refused;
mod whole_row;

use dead_letter_office::{message::RawMessage, source::rabbitmq::topology::QueueType};

use crate::support::{
    SOON,
    capture::Plan,
    database::{Database, Tally},
    eventually,
    letters::Letter,
    messages::{bodies, numbered},
    rabbit::Rabbit,
};

/// One queue and one fresh table.
struct Bench {
    rabbit: Rabbit,
    database: Database,
    queue: String,
}

impl Bench {
    async fn new() -> Self {
        Self::with(QueueType::Quorum).await
    }

    async fn with(queue_type: QueueType) -> Self {
        let (rabbit, database) = tokio::join!(Rabbit::connect(), Database::fresh());
        let queue = rabbit.queue(queue_type).await;
        Self { rabbit, database, queue }
    }

    fn plan(&self) -> Plan {
        Plan::new(&self.rabbit, &self.database, &self.queue)
    }

    /// Captures until so many letters are in the table that are no second copies, and the queue is empty.
    async fn capture(&self, letters: i64) -> Vec<Letter> {
        self.capture_with(self.plan(), letters).await
    }

    async fn capture_with(&self, plan: Plan, letters: i64) -> Vec<Letter> {
        let office = plan.start();
        eventually(&format!("{letters} letters"), SOON * 3, async || {
            let first: i64 =
                self.database.scalar("SELECT count(*) FROM dead_letter_queue WHERE status <> 'DUPLICATE'").await;
            (first == letters).then_some(())
        })
        .await;
        office.stop().await;
        self.rabbit.wait_for_empty(&self.queue).await;
        self.database.letters().await
    }

    /// Sends messages, any bytes in them, and captures them.
    async fn send_and_capture(&self, messages: &[RawMessage]) -> Vec<Letter> {
        self.rabbit.publish_to(&self.queue, messages).await;
        self.capture(i64::try_from(messages.len()).expect("small")).await
    }
}

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
