//! Links that go away, answers that do not come, processes that die: nothing is lost, and no more is said than is known.

use std::time::Duration;

use dead_letter_office::dialect::Target;

use crate::support::{
    SOON,
    database::Tally,
    eventually,
    link::{Fault, Link},
    messages::{bodies, message, numbered},
    shop::{CREATED, Shop},
};

/// In every message of ours that is sent.
const STAMP: &[u8] = b"dlo-replay-id";
/// Begins the statement that records outcomes.
const RECORD: &[u8] = b"WITH ended AS";

const SHORT: Duration = Duration::from_secs(4);

/// RR14.
#[tokio::test]
async fn without_a_confirm_an_attempt_is_in_doubt_and_its_letter_failed() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.rabbit.host_and_port()).await;
    let letters = shop.letters(&shop.exchange, CREATED, numbered(0, 100)).await;
    link.on(STAMP, Fault::SwallowAnswers);
    shop.request_all().await;
    let clerk = shop.rules().broker_over(&link).lease(SHORT).start();
    link.sprung().await;
    eventually("the doubt is shown", SOON, async || {
        (shop.database.scalar::<i64>("SELECT count(*) FROM dlo_replays WHERE state = 'IN_DOUBT'").await > 0)
            .then_some(())
    })
    .await;
    // It takes nothing more over that link, and what was not sent still waits.
    clerk.stop().await;
    shop.database.execute("UPDATE dlo_replays SET state = 'DONE' WHERE state = 'PENDING'").await;
    shop.all_ended().await;

    let doubtful = shop.bodies_of("IN_DOUBT").await;
    assert!(!doubtful.is_empty());
    assert_eq!(shop.database.statuses().await, [("FAILED".to_owned(), 100)].into(), "{:?}", shop.outcomes().await);
    assert!(shop.bodies_of("DONE ROUTED").await.is_empty());
    let arrived = shop.rabbit.ready(&shop.queue).await as usize;
    assert!(arrived <= doubtful.len(), "{arrived} arrived, {} in doubt", doubtful.len());
    let noted: i64 = shop
        .database
        .scalar("SELECT count(*) FROM dead_letter_queue d JOIN dlo_replays r ON r.letter_id = d.id WHERE (d.notes ->> 'in_doubt')::bigint = r.id")
        .await;
    assert_eq!(usize::try_from(noted), Ok(doubtful.len()));
    assert_eq!(letters.len(), 100);
}

/// RR21.
#[tokio::test]
async fn while_its_broker_is_away_a_letter_is_not_on_its_way_and_it_goes_when_the_broker_is_back() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.rabbit.host_and_port()).await;
    let letters = shop.letters(&shop.exchange, CREATED, numbered(0, 30)).await;
    let clerk = shop.rules().broker_over(&link).start();
    for (round, run) in letters.chunks(10).enumerate() {
        link.down();
        for letter in run {
            shop.request(*letter, &Target::Original).await;
        }
        // Longer than the loop waits between two looks.
        let moment = tokio::time::Instant::now() + Duration::from_millis(2500);
        while tokio::time::Instant::now() < moment {
            let waiting = "SELECT count(*) FROM dlo_replays WHERE state = 'PENDING'";
            assert_eq!(shop.database.scalar::<i64>(waiting).await, 10);
            for letter in run {
                assert_eq!(shop.status(*letter).await, "FAILED");
            }
        }
        link.up();
        shop.all_ended().await;
        shop.rabbit.wait_for_ready(&shop.queue, 10 * (u32::try_from(round).expect("few") + 1)).await;
    }
    clerk.stop().await;
    assert_eq!(shop.outcomes().await, [("DONE ROUTED".to_owned(), 30)]);
}

#[tokio::test]
async fn a_crash_between_confirm_and_record_is_shown_as_a_doubt_and_not_repeated() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.database.address()).await;
    let letters = shop.letters(&shop.exchange, CREATED, numbered(0, 20)).await;
    shop.request_all().await;
    link.on(RECORD, Fault::Hold);
    let clerk = shop.rules().database_over(&link).lease(SHORT).start();
    link.sprung().await;
    shop.rabbit.wait_for_ready(&shop.queue, 20).await;
    assert_eq!(shop.outcomes().await, [("LEASED".to_owned(), 20)]);
    assert_eq!(shop.database.statuses().await, [("REPLAYING".to_owned(), 20)].into());
    clerk.crash();

    let clerk = shop.rules().start();
    shop.all_ended().await;
    clerk.stop().await;

    assert_eq!(shop.outcomes().await, [("IN_DOUBT".to_owned(), 20)]);
    assert_eq!(shop.database.statuses().await, [("FAILED".to_owned(), 20)].into());
    let noted = "SELECT count(*) FROM dead_letter_queue WHERE notes ? 'in_doubt' AND next_retry_at IS NULL";
    assert_eq!(shop.database.scalar::<i64>(noted).await, 20);
    assert_eq!(shop.rabbit.ready(&shop.queue).await, 20, "nothing is sent twice");
    assert_eq!(letters.len(), 20);
}

/// A database that is frozen over the end of the lease and comes back does not turn a doubt into a success.
#[tokio::test]
async fn a_lease_that_ran_out_records_nothing() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.database.address()).await;
    shop.letters(&shop.exchange, CREATED, numbered(0, 20)).await;
    shop.request_all().await;
    link.on(RECORD, Fault::Hold);
    let late = shop.rules().database_over(&link).lease(SHORT).start();
    link.sprung().await;
    let other = shop.rules().start();
    shop.all_ended().await;
    link.thaw();
    late.stop().await;
    other.stop().await;
    assert_eq!(shop.outcomes().await, [("IN_DOUBT".to_owned(), 20)]);
    assert_eq!(shop.database.statuses().await, [("FAILED".to_owned(), 20)].into());
    assert_eq!(shop.rabbit.ready(&shop.queue).await, 20);
}

/// What cannot be begun while half of the lease is left is not sent, and not in doubt either.
#[tokio::test]
async fn what_a_slow_broker_leaves_no_time_for_waits_again() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.rabbit.host_and_port()).await;
    shop.letters(&shop.exchange, CREATED, numbered(0, 200)).await;
    shop.request_all().await;
    // The first message of a channel goes alone; with its confirm held back the others are never begun.
    link.on(STAMP, Fault::Hold);
    let clerk = shop.rules().broker_over(&link).lease(SHORT).start();
    link.sprung().await;
    eventually("the others wait again", SOON, async || {
        let outcomes = shop.outcomes().await;
        (outcomes == [("IN_DOUBT".to_owned(), 1), ("PENDING".to_owned(), 199)]).then_some(())
    })
    .await;
    assert_eq!(shop.database.statuses().await, [("FAILED".to_owned(), 200)].into());
    link.thaw();
    shop.all_ended().await;
    clerk.stop().await;
    assert_eq!(shop.outcomes().await, [("DONE ROUTED".to_owned(), 199), ("IN_DOUBT".to_owned(), 1)]);
    assert_eq!(shop.rabbit.ready(&shop.queue).await, 200);
}

/// RR15: a broker that takes no messages because of an alarm does not hold up capture, which has a connection of its own.
#[tokio::test]
async fn a_publishing_connection_that_is_blocked_does_not_hold_up_capture() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.rabbit.host_and_port()).await;
    shop.letters(&shop.exchange, CREATED, numbered(0, 50)).await;
    let clerk = shop.rules().broker_over(&link).start();
    shop.request_all().await;
    shop.all_ended().await;
    // Only the first of a queue expires.
    shop.rabbit.take(&shop.queue, 50).await;
    link.freeze();
    let office = shop.capture();
    shop.database.execute("UPDATE dead_letter_queue SET status = 'FAILED'").await;
    shop.request_all().await;

    let fresh = numbered(1000, 500);
    shop.die(&shop.exchange, CREATED, fresh.clone()).await;
    shop.captured(office, 550).await;
    shop.rabbit.wait_for_empty(&shop.dead).await;
    assert!(shop.database.failed().await.count >= 500);

    link.thaw();
    shop.all_ended().await;
    clerk.stop().await;
    let routed = "SELECT count(*) FROM dlo_replays WHERE verdict = 'ROUTED'";
    assert_eq!(shop.database.scalar::<i64>(routed).await, 100);
    assert_eq!(shop.rabbit.ready(&shop.queue).await, 50);
    assert_eq!(shop.database.failed().await, Tally::of(bodies(&fresh)));
}

/// Connections that are cut again and again: whatever is said to be routed arrived, and what is not was not said to be.
#[tokio::test]
async fn cut_links_leave_doubts_and_no_lies() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.rabbit.host_and_port()).await;
    let orders = numbered(0, 2000);
    shop.letters(&shop.exchange, CREATED, orders.clone()).await;
    shop.request_all().await;
    let clerk = shop.rules().broker_over(&link).start();
    for part in 1..=3 {
        eventually("some arrive", SOON, async || (shop.rabbit.ready(&shop.queue).await >= 200 * part).then_some(()))
            .await;
        link.cut();
    }
    shop.all_ended().await;
    clerk.stop().await;
    let (routed, doubtful) = (shop.bodies_of("DONE ROUTED").await, shop.bodies_of("IN_DOUBT").await);
    assert_eq!(routed.len() + doubtful.len(), 2000, "{:?}", shop.outcomes().await);
    let count = shop.rabbit.ready(&shop.queue).await as usize;
    let mut arrived: Vec<Vec<u8>> = shop
        .rabbit
        .take(&shop.queue, count)
        .await
        .into_iter()
        .map(|delivery| delivery.message.body.unwrap_or_default().to_vec())
        .collect();
    arrived.sort();
    let total = arrived.len();
    arrived.dedup();
    assert_eq!(arrived.len(), total, "nothing twice");
    assert!(routed.iter().all(|body| arrived.binary_search(body).is_ok()), "nothing said to be routed is missing");
    assert!(arrived.iter().all(|body| routed.binary_search(body).is_ok() || doubtful.binary_search(body).is_ok()));
}

/// The first message alone is at risk when the broker is reached again.
#[tokio::test]
async fn a_database_that_goes_away_stops_nothing_for_good() {
    let shop = Shop::open().await;
    let link = Link::to(&shop.database.address()).await;
    let letters = shop.letters(&shop.exchange, CREATED, vec![message("one"), message("two")]).await;
    let clerk = shop.rules().database_over(&link).start();
    let first = shop.request(letters[0], &Target::Original).await;
    shop.ended(&first).await;
    link.down();
    let second = shop.request(letters[1], &Target::Original).await;
    link.up();
    let second = shop.ended(&second).await;
    assert_eq!(second.verdict.as_deref(), Some("ROUTED"));
    clerk.stop().await;
}
