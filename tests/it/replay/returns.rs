//! Letters that were sent home and died again, and those that did not.

use std::time::Duration;

use dead_letter_office::{dead_letter::REPLAY_ID, dialect::Target, store::ActionError};
use serde_json::Value as Json;
use sqlx::Row;

use crate::support::{
    SOON,
    capture::Office,
    eventually,
    link::{Fault, Link},
    messages::{message, text},
    replay::Clerk,
    shop::{CREATED, Shop},
};

/// A shop with one letter captured, and both ways open.
struct Story {
    shop: Shop,
    office: Office,
    clerk: Clerk,
    first: i64,
}

impl Story {
    async fn begin() -> Self {
        let shop = Shop::open().await;
        let clerk = shop.rules().start();
        Self::of(shop, clerk).await
    }

    async fn of(shop: Shop, clerk: Clerk) -> Self {
        let office = shop.capture();
        shop.rabbit.publish(&shop.exchange, CREATED, &[message(r#"{"order": 1}"#)]).await;
        shop.rabbit.reject_one(&shop.queue).await;
        shop.wait_for_letters(1).await;
        let first = shop.ids().await[0];
        Self { shop, office, clerk, first }
    }

    async fn end(self) {
        self.clerk.stop().await;
        self.office.stop().await;
    }

    async fn row(&self, id: i64) -> Life {
        let row = sqlx::query(
            "SELECT status, retry_count, replay_of, resolved_by, notes, origin_exchange, origin_routing_key, origin_queue
             FROM dead_letter_queue WHERE id = $1",
        )
        .bind(id)
        .fetch_one(&self.shop.database.pool)
        .await
        .expect("the letter");
        Life {
            status: row.get("status"),
            retry_count: row.get("retry_count"),
            replay_of: row.get("replay_of"),
            resolved_by: row.get("resolved_by"),
            notes: row.get::<Option<Json>, _>("notes").unwrap_or_default(),
            origin: [row.get("origin_exchange"), row.get("origin_routing_key"), row.get("origin_queue")],
        }
    }
}

#[derive(Debug)]
struct Life {
    status: String,
    retry_count: i32,
    replay_of: Option<i64>,
    resolved_by: Option<String>,
    notes: Json,
    origin: [Option<String>; 3],
}

#[tokio::test]
async fn a_letter_that_dies_again_has_a_return_and_counts_once() {
    let story = Story::begin().await;
    let (shop, first) = (&story.shop, story.first);
    let replay = shop.request(first, &Target::Original).await;
    assert_eq!(shop.ended(&replay).await.verdict.as_deref(), Some("ROUTED"));
    shop.wait_for_status(first, "REPLAYED").await;
    shop.rabbit.reject_one(&shop.queue).await;
    shop.wait_for_letters(2).await;
    shop.wait_for_status(first, "FAILED").await;

    let back = shop.ids().await[1];
    let (letter, the_return) = (story.row(first).await, story.row(back).await);
    assert_eq!((letter.retry_count, letter.replay_of), (1, None));
    assert_eq!(
        (the_return.status.as_str(), the_return.replay_of, the_return.retry_count),
        ("REPEATED", Some(first), 0)
    );
    let replay = shop.ended(&replay).await;
    assert_eq!((replay.state.as_str(), replay.verdict.as_deref()), ("DONE", Some("DIED_AGAIN")));
    assert_eq!(replay.returned_as, Some(back));

    // A return is evidence; the first letter is what can be sent.
    let refused = shop.store.request_replay(back, &Target::Original, "it").await;
    assert!(matches!(refused, Err(ActionError::Status { .. })), "{refused:?}");
    let again = shop.request(first, &Target::Original).await;
    assert_eq!(shop.ended(&again).await.verdict.as_deref(), Some("ROUTED"));
    story.end().await;
}

/// The same token may come more than once: a consumer that publishes it again, a broker that delivers it again.
#[tokio::test]
async fn a_token_that_comes_back_twice_counts_once() {
    let story = Story::begin().await;
    let (shop, first) = (&story.shop, story.first);
    let replay = shop.request(first, &Target::Original).await;
    shop.ended(&replay).await;
    let home = shop.rabbit.take(&shop.queue, 1).await;
    for _ in 0..2 {
        shop.die(&shop.exchange, CREATED, vec![home[0].message.clone()]).await;
    }
    shop.wait_for_letters(3).await;
    shop.wait_for_status(first, "FAILED").await;
    assert_eq!(story.row(first).await.retry_count, 1);
    assert_eq!(story.office.metric(r#"dlo_replays_total{source="orders",verdict="DIED_AGAIN"}"#), 1.0);
    for back in &shop.ids().await[1..] {
        assert_eq!(
            (story.row(*back).await.status.as_str(), story.row(*back).await.replay_of),
            ("REPEATED", Some(first))
        );
    }
    story.end().await;
}

/// The return's own second copy, because the ack of the first got lost.
#[tokio::test]
async fn a_second_copy_of_a_return_counts_for_nothing() {
    let shop = Shop::open().await;
    let letters = shop.letters(&shop.exchange, CREATED, vec![message("order")]).await;
    let replay = shop.send(letters[0], &Target::Original).await;
    assert_eq!(replay.verdict.as_deref(), Some("ROUTED"));
    let link = Link::to(&shop.rabbit.host_and_port()).await;
    let office =
        crate::support::capture::Plan::new(&shop.rabbit, &shop.database, &shop.dead).broker_over(&link).start();
    office.receiving().await;
    // basic.ack: class 60, method 80.
    link.on(&[0, 60, 0, 80], Fault::CutBefore);
    shop.rabbit.reject_one(&shop.queue).await;
    link.sprung().await;
    shop.wait_for_letters(3).await;
    office.stop().await;
    let rows: Vec<(String, Option<i64>, i32)> =
        sqlx::query_as("SELECT status, replay_of, retry_count FROM dead_letter_queue ORDER BY id")
            .fetch_all(&shop.database.pool)
            .await
            .expect("rows");
    let first = Some(letters[0]);
    let expected = [("FAILED", None, 1), ("REPEATED", first, 0), ("DUPLICATE", None, 0)];
    assert_eq!(rows, expected.map(|(status, of, count)| (status.to_owned(), of, count)));
}

#[tokio::test]
async fn a_return_that_is_captured_before_the_outcome_is_recorded_is_the_outcome() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.database.address()).await;
    let clerk = shop.rules().database_over(&link).start();
    let story = Story::of(shop, clerk).await;
    let (shop, first) = (&story.shop, story.first);
    link.on(b"WITH ended AS", Fault::Hold);
    let replay = shop.request(first, &Target::Original).await;
    link.sprung().await;
    shop.rabbit.reject_one(&shop.queue).await;
    shop.wait_for_letters(2).await;
    let died = shop.ended(&replay).await;
    assert_eq!((died.state.as_str(), died.verdict.as_deref()), ("DONE", Some("DIED_AGAIN")));
    link.thaw();
    // The next one is recorded behind the one that was held.
    let again = shop.request(first, &Target::Original).await;
    shop.ended(&again).await;
    let died = shop.ended(&replay).await;
    assert_eq!((died.state.as_str(), died.verdict.as_deref()), ("DONE", Some("DIED_AGAIN")));
    assert_eq!(story.row(first).await.retry_count, 1);
    story.end().await;
}

#[tokio::test]
async fn a_return_ends_the_doubt_about_its_attempt() {
    let story = Story::begin().await;
    let (shop, first) = (&story.shop, story.first);
    let replay = shop.request(first, &Target::Original).await;
    shop.ended(&replay).await;
    // As after a crash between confirm and record.
    shop.database.execute("UPDATE dlo_replays SET state = 'IN_DOUBT', verdict = NULL, error = 'it stopped'").await;
    shop.database
        .execute("UPDATE dead_letter_queue SET status = 'FAILED', notes = jsonb_build_object('in_doubt', (SELECT id FROM dlo_replays))")
        .await;
    shop.rabbit.reject_one(&shop.queue).await;
    shop.wait_for_letters(2).await;
    let replay = shop.ended(&replay).await;
    assert_eq!((replay.verdict.as_deref(), replay.error), (Some("DIED_AGAIN"), None));
    let letter = story.row(first).await;
    assert_eq!((letter.status.as_str(), letter.retry_count, letter.notes), ("FAILED", 1, Json::Null));
    story.end().await;
}

#[tokio::test]
async fn another_consumers_failure_of_a_replay_is_a_letter_of_its_own() {
    let shop = Shop::open().await;
    let other = shop.consumer([]).await;
    let clerk = shop.rules().start();
    let story = Story::of(shop, clerk).await;
    let (shop, first) = (&story.shop, story.first);
    shop.rabbit.bind(&other, &shop.exchange, "#").await;
    let replay = shop.request(first, &Target::Original).await;
    shop.ended(&replay).await;
    shop.rabbit.reject_one(&other).await;
    shop.wait_for_letters(2).await;

    let own = story.row(shop.ids().await[1]).await;
    assert_eq!((own.status.as_str(), own.replay_of), ("FAILED", None));
    assert_eq!(own.notes["replay_of_other_consumer"], first);
    assert_eq!(own.origin[2].as_deref(), Some(&*other));
    let letter = story.row(first).await;
    assert_eq!((letter.status.as_str(), letter.retry_count), ("REPLAYED", 0));
    assert_eq!(shop.ended(&replay).await.verdict.as_deref(), Some("ROUTED"));
    story.end().await;
}

#[tokio::test]
async fn a_token_that_is_not_ours_means_nothing() {
    let shop = Shop::open().await;
    let mut orders = vec![message("no token"), message("foreign"), message("nonsense"), message("a number")];
    orders[1].headers.push(REPLAY_ID, text("6b1d6c0e-9a0b-4b53-a0fb-1d0e1c1b2a3f"));
    orders[2].headers.push(REPLAY_ID, text("not a token"));
    orders[3].headers.push(REPLAY_ID, dead_letter_office::message::Value::I64(7));
    shop.letters(&shop.exchange, CREATED, orders).await;
    assert_eq!(shop.database.statuses().await, [("FAILED".to_owned(), 4)].into());
}

#[tokio::test]
async fn after_a_replay_to_the_queue_the_first_letter_still_knows_its_exchange_and_the_return_too() {
    let story = Story::begin().await;
    let (shop, first) = (&story.shop, story.first);
    let origin = [Some(shop.exchange.clone()), Some(CREATED.to_owned()), Some(shop.queue.clone())];
    for (round, target) in [Target::Queue, Target::queue(shop.queue.as_str())].into_iter().enumerate() {
        let replay = shop.request(first, &target).await;
        shop.ended(&replay).await;
        shop.rabbit.reject_one(&shop.queue).await;
        shop.wait_for_letters(i64::try_from(round).expect("few") + 2).await;
        shop.wait_for_status(first, "FAILED").await;
    }
    for id in shop.ids().await {
        assert_eq!(story.row(id).await.origin, origin);
    }
    let replay = shop.request(first, &Target::Original).await;
    let replay = shop.ended(&replay).await;
    let sent = (replay.sent_exchange.as_deref(), replay.sent_routing_key.as_deref());
    assert_eq!(sent, (Some(&*shop.exchange), Some(CREATED)));
    story.end().await;
}

#[tokio::test]
async fn a_late_return_of_an_older_attempt_says_nothing_about_a_newer_one() {
    let story = Story::begin().await;
    let (shop, first) = (&story.shop, story.first);
    let older = shop.request(first, &Target::Original).await;
    shop.ended(&older).await;
    let newer = shop.request(first, &Target::Original).await;
    shop.ended(&newer).await;
    shop.wait_for_status(first, "REPLAYED").await;
    // In the order in which they were sent.
    shop.rabbit.reject_one(&shop.queue).await;
    shop.wait_for_letters(2).await;
    assert_eq!(shop.ended(&older).await.verdict.as_deref(), Some("DIED_AGAIN"));
    assert_eq!(shop.ended(&newer).await.verdict.as_deref(), Some("ROUTED"));
    let letter = story.row(first).await;
    assert_eq!((letter.status.as_str(), letter.retry_count), ("REPLAYED", 1));
    shop.rabbit.reject_one(&shop.queue).await;
    shop.wait_for_status(first, "FAILED").await;
    assert_eq!(story.row(first).await.retry_count, 2);
    story.end().await;
}

#[tokio::test]
async fn what_stays_quiet_is_resolved_and_a_late_return_reopens_it() {
    let shop = Shop::open().await;
    let clerk = shop.rules().verdict_window(Duration::from_secs(2)).start();
    let story = Story::of(shop, clerk).await;
    let (shop, first) = (&story.shop, story.first);
    let replay = shop.request(first, &Target::Original).await;
    shop.ended(&replay).await;
    let mut seen = vec![shop.status(first).await];
    eventually("it is quiet", SOON, async || {
        seen.push(shop.status(first).await);
        (seen.last().is_some_and(|status| status == "RESOLVED")).then_some(())
    })
    .await;
    seen.dedup();
    assert_eq!(seen, ["REPLAYED", "RESOLVED"]);
    assert_eq!(story.row(first).await.resolved_by.as_deref(), Some("quiet"));
    let window = "SELECT now() - done_at >= interval '2s' FROM dlo_replays";
    assert!(shop.database.scalar::<bool>(window).await);

    shop.rabbit.reject_one(&shop.queue).await;
    shop.wait_for_status(first, "FAILED").await;
    let letter = story.row(first).await;
    assert_eq!((letter.retry_count, letter.resolved_by), (1, None));
    story.end().await;
}
