//! Topics are made, made anew, grow, and lose what retention removes.

use super::{NOTICED, Post, numbered};
use crate::support::{SOON, eventually, unique};

#[tokio::test]
async fn new_topics_of_a_pattern_are_found_and_read_from_their_beginning() {
    let mut post = Post::new(1).await;
    let prefix = unique("retail");
    post.source = format!("topics: [\"{}\", \"^{prefix}\\\\..*\\\\.DLQ$\"], start: latest", post.topic);
    let program = post.start();
    eventually("a partition is read", SOON, async || program.log().contains("begins where").then_some(())).await;

    let found = post.kafka.topic_named(&format!("{prefix}.eu.DLQ"), 2, &[]).await;
    let other = post.kafka.topic_named(&format!("{prefix}.eu"), 1, &[]).await;
    let records = numbered(0, 40);
    // At once: it is not known to anybody yet.
    post.kafka.send(&found, None, &records).await;
    post.kafka.send(&other, None, &numbered(100, 3)).await;

    post.stored(40, SOON).await;
    post.is_exactly(&records).await;
}

#[tokio::test]
async fn a_topic_made_anew_is_an_epoch_and_read_from_its_beginning() {
    let post = Post::new(1).await;
    let program = post.start();
    post.send(&numbered(0, 50)).await;
    post.stored(50, SOON).await;

    post.kafka.delete_topic(&post.topic).await;
    post.kafka.topic_named(&post.topic, 1, &[]).await;
    // Its end is beyond the old position before anybody looks.
    post.send(&numbered(50, 80)).await;

    post.stored(130, SOON * 2).await;
    let (epoch, position): (i32, i64) = sqlx::query_as("SELECT epoch, position FROM dlo_positions")
        .fetch_one(&post.database.pool)
        .await
        .expect("one partition");
    assert_eq!((epoch, position), (1, 80));
    assert!(program.log().contains("made anew"), "{}", program.log());
}

#[tokio::test]
async fn partitions_that_are_added_are_read_from_their_beginning() {
    let mut post = Post::new(1).await;
    post.source += ", start: latest";
    let program = post.start();
    eventually("a partition is read", SOON, async || program.log().contains("begins where").then_some(())).await;

    post.kafka.add_partitions(&post.topic, 3).await;
    let records = numbered(0, 30);
    for (partition, part) in records.chunks(10).enumerate() {
        let partition = i32::try_from(partition).expect("small");
        post.kafka.send(&post.topic, Some(partition), part).await;
    }

    post.stored(30, SOON).await;
    post.is_exactly(&records).await;
}

#[tokio::test]
async fn what_retention_removed_unread_is_counted_as_lost() {
    let post = Post::new(1).await;
    let records = numbered(0, 100);
    post.send(&records[..20]).await;
    let mut program = post.start();
    post.stored(20, SOON).await;
    program.stop(SOON).await;
    post.send(&records[20..]).await;
    post.kafka.delete_records(&post.topic, 0, 65).await;

    let program = post.start();
    post.stored(55, SOON).await;

    program.wait_for_metric("dlo_messages_lost_total", 45.0, NOTICED).await;
    let lost: i64 = post.database.scalar("SELECT lost FROM dlo_positions").await;
    assert_eq!(lost, 45);
    let log = program.log();
    assert!(log.contains("messages are lost") && log.contains("from=20") && log.contains("to=65"), "{log}");
}

#[tokio::test]
async fn what_waits_is_the_lag_also_while_nobody_can_store_it() {
    let post = Post::new(2).await;
    let link = crate::support::link::Link::to(&post.database.address()).await;
    let program = post.start_over(&link);
    post.send(&numbered(0, 10)).await;
    post.stored(10, SOON).await;
    program.wait_for_metric("dlo_source_lag_messages", 0.0, NOTICED).await;

    // The table is not to be written, the positions are to be read.
    let mut lock = post.database.pool.begin().await.expect("begun");
    sqlx::Executor::execute(&mut *lock, "LOCK TABLE dead_letter_queue IN SHARE ROW EXCLUSIVE MODE")
        .await
        .expect("locked");
    post.kafka.send(&post.topic, Some(0), &numbered(10, 7)).await;
    program.wait_for_metric(r#"dlo_source_lag_messages{partition="0""#, 7.0, NOTICED).await;
    lock.rollback().await.expect("released");

    program.wait_for_metric(r#"dlo_source_lag_messages{partition="0""#, 0.0, NOTICED).await;
    post.stored(17, SOON).await;
}
