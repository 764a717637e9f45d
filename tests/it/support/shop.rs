//! A shop whose orders die: an exchange, the queue of its consumer, and where the dead go and are captured.

use std::sync::Arc;

use dead_letter_office::{
    dialect::Target,
    message::{RawMessage, Text},
    source::rabbitmq::topology::QueueType,
    store::{PgStore, replays::Replay},
};
use lapin::{ExchangeKind, types::AMQPValue};
use sqlx::Row;

use super::{
    SOON,
    capture::{Office, Plan},
    database::Database,
    eventually,
    rabbit::{Rabbit, string},
    replay::Rules,
};

/// The routing key of every order.
pub(crate) const CREATED: &str = "orders.created";

pub(crate) struct Shop {
    pub(crate) rabbit: Rabbit,
    pub(crate) database: Database,
    pub(crate) store: Arc<PgStore>,
    /// A topic exchange, bound to `queue` with `#`.
    pub(crate) exchange: String,
    /// Its consumer fails.
    pub(crate) queue: String,
    pub(crate) dead_exchange: String,
    /// What is captured.
    pub(crate) dead: String,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::open_at(Rabbit::connect().await).await
    }

    pub(crate) async fn open_at(rabbit: Rabbit) -> Self {
        let database = Database::fresh().await;
        let store = database.store();
        let exchange = rabbit.exchange(ExchangeKind::Topic).await;
        let dead_exchange = rabbit.exchange(ExchangeKind::Fanout).await;
        let dead = rabbit.queue(QueueType::Quorum).await;
        rabbit.bind(&dead, &dead_exchange, "").await;
        let queue = rabbit.queue_name();
        let shop = Self { rabbit, database, store, exchange, queue, dead_exchange, dead };
        shop.declare(&shop.queue, []).await;
        shop.rabbit.bind(&shop.queue, &shop.exchange, "#").await;
        shop
    }

    /// A queue whose dead are captured.
    pub(crate) async fn consumer<const N: usize>(&self, arguments: [(&str, AMQPValue); N]) -> String {
        let queue = self.rabbit.queue_name();
        self.declare(&queue, arguments).await;
        queue
    }

    async fn declare<const N: usize>(&self, queue: &str, arguments: [(&str, AMQPValue); N]) {
        let dead = [("x-dead-letter-exchange", string(&self.dead_exchange))];
        self.rabbit.declare_kind(queue, "classic", dead.into_iter().chain(arguments)).await;
    }

    pub(crate) fn capture(&self) -> Office {
        Plan::new(&self.rabbit, &self.database, &self.dead).start()
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules::new(&self.rabbit, &self.database)
    }

    /// Publishes orders that die at once, because their time is over before it began.
    pub(crate) async fn die(&self, exchange: &str, key: &str, messages: Vec<RawMessage>) {
        let messages: Vec<RawMessage> = messages.into_iter().map(expiring).collect();
        self.rabbit.publish(exchange, key, &messages).await;
    }

    /// As [`Shop::die`], for what lapin cannot hold.
    pub(crate) async fn die_raw(&self, exchange: &str, key: Text, messages: Vec<RawMessage>) {
        let messages: Vec<RawMessage> = messages.into_iter().map(expiring).collect();
        self.rabbit.publish_raw(exchange, key, &messages).await;
    }

    /// Waits for so many letters, and stops capturing.
    pub(crate) async fn captured(&self, office: Office, letters: i64) {
        self.wait_for_letters(letters).await;
        office.stop().await;
    }

    pub(crate) async fn wait_for_letters(&self, letters: i64) {
        eventually(&format!("{letters} letters"), SOON, async || {
            (self.database.count().await == letters).then_some(())
        })
        .await;
    }

    /// Letters of these orders, captured one after the other, by id.
    pub(crate) async fn letters(&self, exchange: &str, key: &str, messages: Vec<RawMessage>) -> Vec<i64> {
        let count = messages.len();
        let before: i64 = self.database.count().await;
        let office = self.capture();
        self.die(exchange, key, messages).await;
        self.captured(office, before + i64::try_from(count).expect("few")).await;
        self.ids().await.split_off(usize::try_from(before).expect("few"))
    }

    pub(crate) async fn ids(&self) -> Vec<i64> {
        let ids = sqlx::query_scalar("SELECT id FROM dead_letter_queue ORDER BY id");
        ids.fetch_all(&self.database.pool).await.expect("ids")
    }

    /// Asks for a letter to be sent, by its id.
    pub(crate) async fn request(&self, letter: i64, to: &Target) -> Replay {
        self.store.request_replay(letter, to, "it").await.expect("may be sent")
    }

    /// Asks for every failed letter to be sent home, as [`PgStore::request_replay`] does for one.
    pub(crate) async fn request_all(&self) {
        self.database
            .execute(
                "INSERT INTO dlo_replays (letter_id, letter_created_at, token, source, target, requested_by)
                 SELECT id, created_at, gen_random_uuid(), source, '\"original\"', 'it'
                 FROM dead_letter_queue WHERE status = 'FAILED' ORDER BY id",
            )
            .await;
    }

    /// Waits until this attempt has ended.
    pub(crate) async fn ended(&self, replay: &Replay) -> Replay {
        eventually("the attempt has ended", SOON, async || {
            let replay = self.store.replay(replay.id).await.expect("answered").expect("there");
            matches!(replay.state.as_str(), "DONE" | "IN_DOUBT").then_some(replay)
        })
        .await
    }

    /// Waits until all attempts have ended.
    pub(crate) async fn all_ended(&self) {
        eventually("all attempts have ended", SOON, async || {
            let sql = "SELECT NOT EXISTS (SELECT FROM dlo_replays WHERE state IN ('PENDING', 'LEASED'))";
            self.database.scalar::<bool>(sql).await.then_some(())
        })
        .await;
    }

    /// Sends a letter and waits for the outcome.
    pub(crate) async fn send(&self, letter: i64, to: &Target) -> Replay {
        let replay = self.request(letter, to).await;
        let clerk = self.rules().start();
        let ended = self.ended(&replay).await;
        clerk.stop().await;
        ended
    }

    pub(crate) async fn status(&self, letter: i64) -> String {
        self.database.scalar(&format!("SELECT status FROM dead_letter_queue WHERE id = {letter}")).await
    }

    pub(crate) async fn wait_for_status(&self, letter: i64, status: &str) {
        eventually(&format!("letter {letter} is {status}"), SOON, async || {
            (self.status(letter).await == status).then_some(())
        })
        .await;
    }

    /// State and verdict of attempts, counted.
    pub(crate) async fn outcomes(&self) -> Vec<(String, i64)> {
        let rows = sqlx::query(
            "SELECT state || coalesce(' ' || verdict, '') AS outcome, count(*) AS n FROM dlo_replays GROUP BY 1 ORDER BY 1",
        )
        .fetch_all(&self.database.pool)
        .await
        .expect("counted");
        rows.iter().map(|row| (row.get("outcome"), row.get("n"))).collect()
    }

    /// Bodies of the letters whose attempt ended so.
    pub(crate) async fn bodies_of(&self, outcome: &str) -> Vec<Vec<u8>> {
        let bodies = sqlx::query_scalar(
            "SELECT d.body FROM dlo_replays r JOIN dead_letter_queue d ON d.id = r.letter_id
             WHERE r.state || coalesce(' ' || r.verdict, '') = $1 ORDER BY d.body",
        )
        .bind(outcome);
        bodies.fetch_all(&self.database.pool).await.expect("bodies")
    }
}

fn expiring(mut message: RawMessage) -> RawMessage {
    if let Some(properties) = message.properties.amqp_mut() {
        properties.expiration = Some("0".into());
    }
    message
}
