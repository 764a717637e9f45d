//! A writer that stands still between its look and its commit, while the broker gives its messages to another.

use super::COMMIT;
use crate::support::{SOON, bench::Bench, eventually, link::Fault};

/// The first pipeline has its messages, and `word` on its way to the database; then the broker takes them from it and
/// the second stores them all; then the first goes on. Returns the copies that are marked.
async fn frozen_at(bench: &Bench, word: &[u8], messages: usize) -> i64 {
    let published = bench.publish_numbered(messages).await;
    let link = bench.link_to_database().await;
    link.on(word, Fault::Hold);
    let to_broker = bench.link_to_broker().await;
    let plan = bench.plan().database_over(&link).broker_over(&to_broker);
    let frozen = plan.prefetch(1000).rows(500).start();
    link.sprung().await;

    to_broker.down();
    let other = bench.plan().prefetch(1000).rows(500).start();
    bench.captured(&published).await;

    bench.drained(&other).await;

    link.thaw();
    to_broker.up();
    // It has to hear of it before it is stopped: by its next session, or by having nothing in hand.
    frozen.receiving().await;
    eventually("the frozen one has nothing in hand", SOON, async || {
        (frozen.metric("dlo_inflight_bytes") == 0.0).then_some(())
    })
    .await;
    frozen.stop().await;
    other.stop().await;
    bench.exactly(&published).await
}

#[tokio::test]
async fn a_writer_frozen_before_its_commit_arrives_stores_nothing_twice() {
    let bench = Bench::new().await;
    assert_eq!(frozen_at(&bench, COMMIT, 300).await, 0);
    assert_eq!(bench.stored_by(1).await, 0, "what the frozen one sent was refused");
}

#[tokio::test]
async fn a_writer_frozen_before_its_copy_stores_nothing_twice() {
    let bench = Bench::new().await;
    assert_eq!(frozen_at(&bench, b"COPY dead_letter_queue", 300).await, 0);
    assert_eq!(bench.stored_by(1).await, 0);
}

#[tokio::test]
async fn a_writer_frozen_with_several_batches_stores_nothing_twice() {
    let bench = Bench::new().await;
    assert_eq!(frozen_at(&bench, COMMIT, 1_900).await, 0);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_not_done_twice() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(1_000).await;
    let link = bench.link_to_database().await;
    let office = bench.plan().database_over(&link).prefetch(1000).rows(100).start();
    for _ in 0..5 {
        link.on(COMMIT, Fault::CutBeforeAnswer);
        link.sprung().await;
        if bench.database.count().await == 1_000 {
            break;
        }
    }
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0, "the channel lived on, so nothing came twice");
    assert_eq!(bench.sessions().await, 1);
}

#[tokio::test]
async fn a_commit_that_never_arrives_is_done_again() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(500).await;
    let link = bench.link_to_database().await;
    link.on(COMMIT, Fault::CutBefore);
    let office = bench.plan().database_over(&link).prefetch(500).rows(100).start();
    link.sprung().await;
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0);
}

/// Answer and channel lost at once: the other pipeline has to see the rows that were committed.
#[tokio::test]
async fn a_commit_whose_answer_and_channel_are_lost_leaves_marked_copies() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(300).await;
    let link = bench.link_to_database().await;
    link.on(COMMIT, Fault::CutBeforeAnswer);
    let to_broker = bench.link_to_broker().await;
    let first = bench.plan().database_over(&link).broker_over(&to_broker).prefetch(500).rows(500).start();
    link.sprung().await;
    link.down();
    to_broker.down();
    let other = bench.plan().prefetch(500).rows(500).start();
    bench.captured(&published).await;
    let committed = bench.stored_by(1).await;
    assert!(committed > 0);
    eventually("the second copies", SOON, async || (bench.database.count().await == 300 + committed).then_some(()))
        .await;

    link.up();
    to_broker.up();
    first.receiving().await;
    eventually("nothing in hand", SOON, async || (first.metric("dlo_inflight_bytes") == 0.0).then_some(())).await;
    first.stop().await;
    other.stop().await;

    assert_eq!(bench.exactly(&published).await, committed);
}

#[tokio::test]
async fn two_pipelines_whose_links_are_cut_again_and_again_hide_and_lose_nothing() {
    let bench = Bench::new().await;
    let published = crate::support::messages::numbered(0, 3_000);
    let (to_a, to_b) = (bench.link_to_broker().await, bench.link_to_broker().await);
    let (db_a, db_b) = (bench.link_to_database().await, bench.link_to_database().await);
    let a = bench.plan().broker_over(&to_a).database_over(&db_a).rows(50).start();
    let b = bench.plan().broker_over(&to_b).database_over(&db_b).rows(50).start();
    let links = [&to_a, &to_b, &db_a, &db_b];
    let mut random = fastrand::Rng::with_seed(5);

    let publishing = bench.rabbit.publish_to(&bench.queue, &published);
    let cutting = async {
        for round in 1..=20 {
            let goal = round * 100;
            eventually("some letters more", SOON, async || (bench.database.count().await >= goal).then_some(())).await;
            links[random.usize(0..links.len())].cut();
        }
    };
    tokio::join!(publishing, cutting);
    bench.captured(&published).await;
    bench.drained(&a).await;
    bench.drained(&b).await;
    a.stop().await;
    b.stop().await;

    bench.exactly(&published).await;
}
