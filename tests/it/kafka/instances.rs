//! Instances that are killed, join, leave, and are frozen while their partitions go to others.

use std::time::{Duration, Instant};

use super::{Post, numbered};
use crate::support::{SOON, link::Link, program::Program, seeded, short_or_long};

/// One million in the long form, while this goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_joined_left_and_frozen_nothing_is_lost_and_nothing_is_twice() {
    let (began, (seed, mut random)) = (Instant::now(), seeded());
    let post = Post::new(8).await;
    let records = numbered(0, short_or_long(40_000, 1_000_000));
    // Its writes are slow, so that it is in the middle of one when it is frozen.
    let link = Link::to(&post.database.address()).await;
    link.slow(Duration::from_millis(20));
    let (mut steady, frozen) = (post.start(), post.start_over(&link));
    steady.receiving().await;
    frozen.receiving().await;

    let sending = async {
        // Over the whole time of what happens below.
        let parts = short_or_long(80, 200);
        for part in records.chunks(records.len() / parts) {
            post.send(part).await;
            tokio::time::sleep(Duration::from_millis(short_or_long(300, 500))).await;
        }
    };
    let happening = async {
        let mut third: Option<Program> = None;
        for round in 0..10 {
            tokio::time::sleep(Duration::from_millis(random.u64(200..1_500))).await;
            steady.kill();
            steady = post.start();
            match round % 4 {
                0 => third = Some(post.start()),
                2 => {
                    if let Some(mut leaving) = third.take() {
                        leaving.stop(SOON).await;
                    }
                }
                _ => {}
            }
            if round % 5 == 1 {
                frozen.signal("STOP");
                // Longer than its session: by then its partitions are others'.
                tokio::time::sleep(Duration::from_secs(7)).await;
                frozen.signal("CONT");
            }
        }
        (steady, third)
    };
    let ((), (mut steady, _third)) = tokio::join!(sending, happening);

    post.stored(records.len(), Duration::from_secs(180)).await;
    steady.stop(SOON).await;
    let mut frozen = frozen;
    frozen.stop(SOON).await;
    post.is_exactly(&records).await;
    let astray = frozen.log().matches("not where they were expected").count();
    println!(
        "kafka, {} records, 10 kills, 2 freezes, joins and leaves: none lost, none twice; {astray} batches refused after a freeze (seed {seed}, {:?})",
        records.len(),
        began.elapsed()
    );
}

#[tokio::test]
async fn a_member_that_is_not_ours_is_refused_with_the_way_out() {
    let post = Post::new(1).await;
    let stranger = post.kafka.looking(&post.group);
    rdkafka::consumer::Consumer::subscribe(&stranger, &[&post.topic]).expect("subscribed");
    crate::support::eventually("a stranger in the group", SOON, async || {
        let _ = stranger.poll(Duration::from_millis(20));
        (post.kafka.members(&post.group).len() == 1).then_some(())
    })
    .await;
    post.send(&numbered(0, 5)).await;

    let program = post.start();
    crate::support::eventually("it is refused", SOON, async || {
        let _ = stranger.poll(Duration::from_millis(20));
        program.log().contains("has a member that is not of this installation").then_some(())
    })
    .await;
    assert_eq!(program.metric("dlo_source_up").await, Some(0.0));
    assert_eq!(post.database.count().await, 0);

    drop(stranger);
    post.stored(5, SOON * 2).await;
}
