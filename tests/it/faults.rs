//! What breaks between broker, us and the database, and what is in the table afterwards. Every count is exact: each
//! published message is one `FAILED` letter, and what came twice is marked as such.

mod broker;
mod copies;
mod database;
mod fence;
mod queues;

use dead_letter_office::message::RawMessage;

use crate::support::{
    SOON,
    bench::Bench,
    capture::Office,
    database::Tally,
    eventually,
    link::Link,
    messages::{bodies, numbered},
};

/// A batch of its own is committed with this word on the wire, and with no other.
const COMMIT: &[u8] = b"COMMIT";
/// `basic.ack`: class 60, method 80.
const ACK: &[u8] = &[0, 60, 0, 80];

impl Bench {
    /// Waits until every one of `published` is a letter.
    async fn captured(&self, published: &[RawMessage]) {
        let expected = i64::try_from(published.len()).expect("small");
        eventually(&format!("{expected} letters"), SOON * 2, async || {
            let found: i64 =
                self.database.scalar("SELECT count(*) FROM dead_letter_queue WHERE status = 'FAILED'").await;
            (found >= expected).then_some(())
        })
        .await;
    }

    /// Waits until the queue is empty and the pipeline has nothing in hand. What a broken connection held is nowhere for a
    /// moment, so this has to be so for longer than that.
    async fn drained(&self, office: &Office) {
        let mut quiet = 0;
        eventually("all is acked", SOON, async || {
            let nothing =
                office.metrics.is_up() && office.metrics.held() == 0 && self.rabbit.ready(&self.queue).await == 0;
            quiet = if nothing { quiet + 1 } else { 0 };
            (quiet >= 40).then_some(())
        })
        .await;
    }

    /// What has to hold at the end of every test here, once nobody consumes any more. Returns how many second copies
    /// there are.
    async fn exactly(&self, published: &[RawMessage]) -> i64 {
        self.rabbit.wait_for_empty(&self.queue).await;
        assert_eq!(self.database.failed().await, Tally::of(bodies(published)), "{:?}", self.database.statuses().await);
        let others: i64 = self
            .database
            .scalar(
                "SELECT count(*) FROM dead_letter_queue WHERE status NOT IN ('FAILED', 'DUPLICATE')
                     OR status = 'FAILED' AND notes->>'copy' IS NOT NULL",
            )
            .await;
        assert_eq!(others, 0);
        self.copies_are_marked().await
    }

    /// Every second copy says of what, its first letter has the same content, and it says why.
    async fn copies_are_marked(&self) -> i64 {
        let copies: i64 =
            self.database.scalar("SELECT count(*) FROM dead_letter_queue WHERE status = 'DUPLICATE'").await;
        let right: i64 = self
            .database
            .scalar(
                "SELECT count(*) FROM dead_letter_queue c JOIN dead_letter_queue f ON f.id = c.duplicate_of
                 WHERE c.status = 'DUPLICATE' AND f.status = 'FAILED' AND f.body = c.body
                   AND f.capture_session <> c.capture_session AND c.notes->>'copy' = 'redelivery'",
            )
            .await;
        assert_eq!(copies, right);
        copies
    }

    /// Letters committed in a session.
    async fn stored_by(&self, session: i64) -> i64 {
        self.database.scalar(&format!("SELECT count(*) FROM dead_letter_queue WHERE capture_session = {session}")).await
    }

    async fn sessions(&self) -> i64 {
        self.database.scalar("SELECT count(*) FROM dlo_capture_sessions").await
    }

    async fn link_to_broker(&self) -> Link {
        Link::to(&self.rabbit.host_and_port()).await
    }

    async fn link_to_database(&self) -> Link {
        Link::to(&self.database.address()).await
    }

    async fn publish_numbered(&self, count: usize) -> Vec<RawMessage> {
        let messages = numbered(0, count);
        self.rabbit.publish_to(&self.queue, &messages).await;
        messages
    }
}
