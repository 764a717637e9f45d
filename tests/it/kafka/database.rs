//! The database is slow, away, restored, or set by hand.

use std::time::{Duration, Instant};

use super::{NOTICED, Post, numbered};
use crate::support::{SOON, database::Database, eventually, link::Link, program::Setup};

/// Waits on purpose, longer than a consumer may go without polling.
#[tokio::test]
async fn a_database_that_is_away_longer_than_the_poll_interval_costs_no_assignment() {
    let mut post = Post::new(4).await;
    post.properties += ", max.poll.interval.ms: 6000";
    let link = Link::to(&post.database.address()).await;
    let program = post.start_over(&link);
    program.receiving().await;
    let records = numbered(0, 30_000);
    post.send(&records[..1_000]).await;
    post.stored(1_000, SOON).await;

    link.down();
    post.send(&records[1_000..]).await;
    let since = Instant::now();
    eventually("it has been away for long", SOON, async || (since.elapsed() > Duration::from_secs(9)).then_some(()))
        .await;
    link.up();
    post.stored(records.len(), SOON * 2).await;

    post.is_exactly(&records).await;
    assert_eq!(program.log().matches(" revoked ").count(), 0, "the group kept us");
    assert!(program.memory_peak_mib() < 256, "{} MiB", program.memory_peak_mib());
}

#[tokio::test]
async fn what_a_restored_database_lost_is_read_again_and_nothing_twice() {
    let post = Post::new(4).await;
    let records = numbered(0, 3_000);
    let mut program = post.start();
    post.send(&records[..1_000]).await;
    post.stored(1_000, SOON).await;
    program.stop(SOON).await;
    let backup = post.database.copy().await;
    let mut program = post.start();
    post.send(&records[1_000..]).await;
    post.stored(3_000, SOON).await;
    program.stop(SOON).await;

    let post = Post { setup: Setup::of_database(&backup), database: backup, ..post };
    let _program = post.start();
    post.stored(3_000, SOON).await;

    post.is_exactly(&records).await;
}

#[tokio::test]
async fn a_database_restored_to_before_it_knew_the_topic_reads_all_of_it_again() {
    let post = Post::new(2).await;
    let backup = post.database.copy().await;
    let records = numbered(0, 500);
    post.send(&records).await;
    let mut program = post.start();
    post.stored(500, SOON).await;
    program.stop(SOON).await;
    let committed = |partition| post.kafka.committed(&post.kafka.looking(&post.group), &post.topic, partition);
    assert_eq!(committed(0).unwrap_or(0) + committed(1).unwrap_or(0), 500, "the group was told");

    let post = Post { setup: Setup::of_database(&backup), database: backup, ..post };
    let _program = post.start();
    post.stored(500, SOON).await;

    post.is_exactly(&records).await;
}

#[tokio::test]
async fn a_position_set_by_hand_is_followed_in_both_directions() {
    let post = Post::new(1).await;
    let records = numbered(0, 100);
    post.send(&records).await;
    let program = post.start();
    post.stored(100, SOON).await;

    // Forward, past what is not there yet, would stop; back means again.
    post.database.execute("UPDATE dlo_positions SET position = 60").await;
    post.stored(140, NOTICED).await;
    let twice: i64 = post
        .database
        .scalar(
            "SELECT count(*) FROM (SELECT FROM dead_letter_queue GROUP BY captured_offset HAVING count(*) = 2) twice",
        )
        .await;
    assert_eq!(twice, 40);

    post.database.execute("UPDATE dlo_positions SET position = 5000").await;
    program.wait_for_metric("dlo_source_partitions_stopped", 1.0, NOTICED).await;
    assert!(program.log().contains("dlo sources seek"), "{}", program.log());
    post.send(&numbered(100, 10)).await;
    post.database.execute("UPDATE dlo_positions SET position = 100").await;
    post.stored(150, NOTICED * 2).await;
    assert_eq!(program.metric("dlo_source_partitions_stopped").await, Some(0.0));
}

#[tokio::test]
async fn a_group_that_has_offsets_already_is_continued() {
    let post = Post::new(1).await;
    let records = numbered(0, 100);
    post.send(&records).await;
    post.kafka.commit(&post.group, &post.topic, 0, 70);

    let program = post.start();
    post.stored(30, SOON).await;

    post.is_exactly(&records[70..]).await;
    assert!(program.log().contains("begins at the group's offset"), "{}", program.log());
}

#[tokio::test]
async fn offsets_that_somebody_resets_are_noticed_and_not_followed() {
    let post = Post::new(1).await;
    let records = numbered(0, 100);
    post.send(&records).await;
    let mut program = post.start();
    post.stored(100, SOON).await;
    program.stop(SOON).await;
    post.kafka.commit(&post.group, &post.topic, 0, 10);

    let program = post.start();
    eventually("the reset is told", SOON, async || {
        program.log().contains("the group's offset was set by hand").then_some(())
    })
    .await;

    post.send(&numbered(100, 5)).await;
    post.stored(105, SOON).await;
    let _ = Database::count(&post.database).await;
}
