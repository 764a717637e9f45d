//! The broker's side breaks.

use std::time::Duration;

use dead_letter_office::source::rabbitmq::topology::QueueType;
use sqlx::Executor;

use crate::support::{SOON, bench::Bench, eventually, messages::numbered};

#[tokio::test]
async fn connections_cut_under_load_lose_nothing() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let bench = Bench::with(queue_type).await;
        let published = numbered(0, 4_000);
        let link = bench.link_to_broker().await;
        let office = bench.plan().broker_over(&link).rows(100).start();
        let publishing = bench.rabbit.publish_to(&bench.queue, &published);
        let cutting = async {
            for round in 1..=10 {
                let goal = round * 300;
                let more = async || (bench.database.count().await >= goal).then_some(());
                eventually("some letters more", SOON, more).await;
                link.cut();
            }
        };
        tokio::join!(publishing, cutting);
        bench.captured(&published).await;
        bench.drained(&office).await;
        office.stop().await;

        bench.exactly(&published).await;
    }
}

#[tokio::test]
async fn connections_closed_by_an_operator_are_made_again() {
    let bench = Bench::new().await;
    let office = bench.plan().start();
    let published = numbered(0, 300);
    for part in published.chunks(100) {
        bench.rabbit.publish_to(&bench.queue, part).await;
        // The broker lists a connection after seconds.
        bench.rabbit.management.close_connections(&office.connection_name).await;
    }
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    bench.exactly(&published).await;
}

/// Acks of the old channel must not be sent on the new one, whose tags begin at 1 again.
#[tokio::test]
async fn a_batch_held_by_the_database_while_the_channel_is_replaced_acks_nothing_on_the_new_one() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(500).await;
    let mut lock = bench.database.pool.begin().await.expect("begun");
    lock.execute("LOCK TABLE dead_letter_queue IN SHARE ROW EXCLUSIVE MODE").await.expect("locked");
    let office = bench.plan().prefetch(500).rows(500).start();
    bench.rabbit.wait_for_ready(&bench.queue, 0).await;
    bench.rabbit.management.close_connections(&office.connection_name).await;
    eventually("a new session", SOON, async || (bench.sessions().await == 2).then_some(())).await;
    bench.rabbit.wait_for_ready(&bench.queue, 0).await;
    lock.rollback().await.expect("released");

    bench.captured(&published).await;
    eventually("the old batch is settled", SOON, async || (office.metric("dlo_inflight_bytes") == 0.0).then_some(()))
        .await;
    office.stop().await;

    bench.exactly(&published).await;
    assert_eq!(bench.sessions().await, 2, "no channel was closed over an unknown tag");
}

#[tokio::test]
async fn a_broker_that_falls_silent_is_given_up_and_met_again() {
    let bench = Bench::new().await;
    let link = bench.link_to_broker().await;
    let mut plan = bench.plan().broker_over(&link);
    plan.address.heartbeat_s = Some(1);
    let office = plan.start();
    office.receiving().await;
    let published = numbered(0, 200);
    bench.rabbit.publish_to(&bench.queue, &published[..100]).await;
    bench.captured(&published[..100]).await;

    link.freeze();
    bench.rabbit.publish_to(&bench.queue, &published[100..]).await;
    eventually("the silence is noticed", Duration::from_secs(20), async || (!office.metrics.is_up()).then_some(()))
        .await;
    link.cut();
    link.thaw();
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    bench.exactly(&published).await;
}

#[tokio::test]
async fn a_broker_that_comes_late_is_waited_for() {
    let bench = Bench::new().await;
    let link = bench.link_to_broker().await;
    link.down();
    let office = bench.plan().broker_over(&link).start();
    let published = bench.publish_numbered(50).await;
    eventually("it is known that there is no broker", SOON, async || {
        office.metrics.trouble().filter(|why| why != "not connected yet")
    })
    .await;
    link.up();
    bench.captured(&published).await;
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0);
}
