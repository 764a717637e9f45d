//! What most tests of capture need.

use dead_letter_office::{message::RawMessage, source::rabbitmq::topology::QueueType};

use super::{SOON, capture::Plan, database::Database, eventually, letters::Letter, rabbit::Rabbit};

/// One queue and one fresh table.
pub(crate) struct Bench {
    pub(crate) rabbit: Rabbit,
    pub(crate) database: Database,
    pub(crate) queue: String,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(QueueType::Quorum).await
    }

    pub(crate) async fn with(queue_type: QueueType) -> Self {
        let (rabbit, database) = tokio::join!(Rabbit::connect(), Database::fresh());
        let queue = rabbit.queue(queue_type).await;
        Self { rabbit, database, queue }
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::new(&self.rabbit, &self.database, &self.queue)
    }

    /// Captures until so many letters are in the table that are no second copies, and the queue is empty.
    pub(crate) async fn capture(&self, letters: i64) -> Vec<Letter> {
        self.capture_with(self.plan(), letters).await
    }

    pub(crate) async fn capture_with(&self, plan: Plan, letters: i64) -> Vec<Letter> {
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
    pub(crate) async fn send_and_capture(&self, messages: &[RawMessage]) -> Vec<Letter> {
        self.rabbit.publish_to(&self.queue, messages).await;
        self.capture(i64::try_from(messages.len()).expect("small")).await
    }
}
