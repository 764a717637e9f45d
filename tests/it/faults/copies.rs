//! Committed, but the broker never heard: the same message comes twice.

use dead_letter_office::{message::RawMessage, source::rabbitmq::topology::QueueType};

use super::{ACK, COMMIT};
use crate::support::{
    SOON,
    bench::Bench,
    eventually,
    link::Fault,
    messages::{message, numbered},
};

async fn with_the_first_ack_lost(bench: &Bench, rows: usize, published: &[RawMessage]) -> i64 {
    let link = bench.link_to_broker().await;
    link.on(ACK, Fault::CutBefore);
    let office = bench.plan().broker_over(&link).prefetch(500).rows(rows).start();
    link.sprung().await;
    bench.captured(published).await;
    bench.drained(&office).await;
    office.stop().await;
    bench.exactly(published).await
}

#[tokio::test]
async fn what_comes_again_because_its_ack_was_lost_is_marked_as_a_second_copy() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let bench = Bench::with(queue_type).await;
        let published = bench.publish_numbered(500).await;

        let copies = with_the_first_ack_lost(&bench, 500, &published).await;

        // Nothing of the first session was acked, so all that it committed came again.
        assert!(copies > 0);
        assert_eq!(copies, bench.stored_by(1).await);
    }
}

#[tokio::test]
async fn what_comes_again_mixed_with_new_messages_is_told_from_them() {
    let bench = Bench::new().await;
    let mut published = bench.publish_numbered(300).await;
    let link = bench.link_to_broker().await;
    link.on(ACK, Fault::CutBefore);
    let office = bench.plan().broker_over(&link).prefetch(500).rows(500).start();
    link.sprung().await;
    let new = numbered(300, 500);
    bench.rabbit.publish_to(&bench.queue, &new).await;
    published.extend(new);
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    let copies = bench.exactly(&published).await;

    assert_eq!(copies, bench.stored_by(1).await);
}

#[tokio::test]
async fn of_messages_that_are_all_the_same_as_many_are_letters_as_were_sent() {
    // In one batch, and in many on their way at once, which look for their first letters among the same rows.
    for rows in [500, 10] {
        let bench = Bench::new().await;
        let published = vec![message("the same"); 100];
        bench.rabbit.publish_to(&bench.queue, &published).await;

        let copies = with_the_first_ack_lost(&bench, rows, &published).await;

        assert_eq!(copies, bench.stored_by(1).await);
        let firsts = "SELECT count(DISTINCT duplicate_of) FROM dead_letter_queue";
        assert_eq!(bench.database.scalar::<i64>(firsts).await, copies, "each copy is of a letter of its own");
    }
}

#[tokio::test]
async fn a_copy_of_a_copy_names_the_first_letter() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(50).await;
    let link = bench.link_to_broker().await;
    for _ in 0..3 {
        // Three times in a row the ack is lost, each time in a process of its own.
        link.on(ACK, Fault::CutBefore);
        let office = bench.plan().broker_over(&link).prefetch(500).rows(500).start();
        link.sprung().await;
        office.crash();
    }
    let office = bench.plan().start();
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    let copies = bench.exactly(&published).await;

    assert!(copies >= 3, "{copies}");
}

#[tokio::test]
async fn an_acked_message_sent_once_more_is_a_letter_of_its_own() {
    let bench = Bench::new().await;
    let once = vec![message("the same")];
    let link = bench.link_to_broker().await;
    let office = bench.plan().broker_over(&link).start();
    for n in 1..=3 {
        bench.rabbit.publish_to(&bench.queue, &once).await;
        eventually("it is stored", SOON, async || (bench.database.count().await == n).then_some(())).await;
    }
    office.stop().await;

    assert_eq!(bench.exactly(&vec![once[0].clone(); 3]).await, 0);
}

#[tokio::test]
async fn a_process_that_dies_at_any_moment_loses_nothing_and_hides_nothing() {
    let bench = Bench::new().await;
    let published = numbered(0, 4_000);
    let mut random = fastrand::Rng::with_seed(42);
    let publishing = bench.rabbit.publish_to(&bench.queue, &published);
    let crashing = async {
        for round in 1..=8 {
            let office = bench.plan().rows(100).start();
            let goal = round * 400 + random.i64(0..200);
            eventually("some letters more", SOON, async || (bench.database.count().await >= goal).then_some(())).await;
            office.crash();
        }
    };
    tokio::join!(publishing, crashing);

    let office = bench.plan().start();
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    bench.exactly(&published).await;
}

/// The commit went through, the process died before it knew.
#[tokio::test]
async fn a_process_that_dies_between_commit_and_ack_leaves_marked_copies() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(400).await;
    let link = bench.link_to_database().await;
    link.on(COMMIT, Fault::CutBeforeAnswer);
    let office = bench.plan().database_over(&link).prefetch(500).rows(500).start();
    link.sprung().await;
    link.down();
    office.crash();

    let office = bench.plan().start();
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    let copies = bench.exactly(&published).await;
    assert!(copies > 0);
    assert_eq!(copies, bench.stored_by(1).await);
}
