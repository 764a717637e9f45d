//! The database is away, read-only, locked or silent: the batch is kept, the broker's session lives on.

use std::time::{Duration, Instant};

use sqlx::Executor;

use crate::support::{SOON, bench::Bench, eventually, messages::numbered};

impl Bench {
    /// Nothing came twice, because no session ended: all that was published is there, once.
    async fn exactly_once(&self, published: &[dead_letter_office::message::RawMessage]) {
        assert_eq!(self.exactly(published).await, 0);
        assert_eq!(self.sessions().await, 1);
    }
}

#[tokio::test]
async fn connections_ended_by_the_server_under_load_cost_nothing() {
    let bench = Bench::new().await;
    let published = numbered(0, 6_000);
    let office = bench.plan().rows(100).start();
    let publishing = bench.rabbit.publish_to(&bench.queue, &published);
    let terminating = async {
        let mut terminated = 0;
        for round in 1..=20 {
            let goal = round * 200;
            eventually("some letters more", SOON, async || (bench.database.count().await >= goal).then_some(())).await;
            terminated += bench.database.terminate_connections().await;
        }
        assert!(terminated >= 20, "{terminated}");
    };
    tokio::join!(publishing, terminating);
    bench.captured(&published).await;
    office.stop().await;

    bench.exactly_once(&published).await;
}

#[tokio::test]
async fn a_database_that_becomes_read_only_is_waited_for_and_its_connections_are_replaced() {
    let bench = Bench::new().await;
    let office = bench.plan().start();
    office.receiving().await;
    let name = &bench.database.name;
    bench.database.execute_on_server(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    bench.database.terminate_connections().await;

    let published = bench.publish_numbered(500).await;
    eventually("the source is blocked", SOON, async || office.metrics.is_blocked().then_some(())).await;
    assert_eq!(bench.database.count().await, 0);
    // As after a failover: the old, read-only connections are still there, and new ones are well.
    bench.database.execute_on_server(&format!("ALTER DATABASE {name} SET default_transaction_read_only = off")).await;
    bench.captured(&published).await;
    assert!(!office.metrics.is_blocked());
    assert!(office.metric(r#"dlo_batch_write_errors_total{reason="read_only""#) >= 1.0);
    office.stop().await;

    bench.exactly_once(&published).await;
}

/// As at the first start on a queue with a backlog: the month's partition comes while letters are on their way into the
/// default one. That is nothing about these letters, which lose nothing by it.
#[tokio::test]
async fn a_partition_that_comes_in_mid_copy_costs_no_payload() {
    let bench = Bench::new().await;
    let bounds = "SELECT format('%s %s', c.relname, pg_get_expr(c.relpartbound, c.oid)) FROM pg_class c
                  WHERE c.oid = (SELECT tableoid FROM dead_letter_queue)";
    bench.database.execute("INSERT INTO dead_letter_queue (service_name, event_type) VALUES ('s', 'e')").await;
    let partition: String = bench.database.scalar(bounds).await;
    bench.database.execute("DELETE FROM dead_letter_queue").await;
    let (name, _) = partition.split_once(' ').expect("name and bounds");
    bench.database.execute(&format!("ALTER TABLE dead_letter_queue DETACH PARTITION {name}")).await;
    let office = bench.plan().start();
    office.receiving().await;

    let mut attaching = bench.database.pool.begin().await.expect("begun");
    attaching
        .execute(format!("ALTER TABLE dead_letter_queue ATTACH PARTITION {partition}").as_str())
        .await
        .expect("attached");
    let published = bench.publish_numbered(500).await;
    eventually("a writer waits for the default partition", SOON, async || {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'dead_letter_queue_default'::regclass";
        (bench.database.scalar::<i64>(waiting).await > 0).then_some(())
    })
    .await;
    attaching.commit().await.expect("committed");
    bench.captured(&published).await;
    office.stop().await;

    let whole = "SELECT count(*) FROM dead_letter_queue WHERE payload IS NOT NULL AND notes IS NULL";
    assert_eq!(bench.database.scalar::<i64>(whole).await, 500);
    bench.exactly_once(&published).await;
}

#[tokio::test]
async fn a_locked_table_is_waited_for() {
    let bench = Bench::new().await;
    let office = bench.plan().start();
    office.receiving().await;
    let mut lock = bench.database.pool.begin().await.expect("begun");
    lock.execute("LOCK TABLE dead_letter_queue IN SHARE ROW EXCLUSIVE MODE").await.expect("locked");

    let published = bench.publish_numbered(800).await;
    eventually("a writer waits for the lock", SOON, async || {
        let waiting: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
            .fetch_one(&mut *lock)
            .await
            .expect("looked");
        (waiting > 0).then_some(())
    })
    .await;
    lock.rollback().await.expect("released");
    bench.captured(&published).await;
    office.stop().await;

    bench.exactly_once(&published).await;
}

/// Waits on purpose: longer than a heartbeat, and than anybody waits for a connection of the pool.
#[tokio::test]
async fn a_database_that_is_away_for_long_is_waited_for() {
    let bench = Bench::new().await;
    let link = bench.link_to_database().await;
    let mut plan = bench.plan().database_over(&link);
    plan.address.heartbeat_s = Some(2);
    let office = plan.start();
    office.receiving().await;
    link.down();

    let published = bench.publish_numbered(1_000).await;
    let since = Instant::now();
    eventually("it has been away for long", SOON, async || (since.elapsed() > Duration::from_secs(15)).then_some(()))
        .await;
    assert!(office.metrics.is_blocked() && office.metrics.is_up());
    link.up();
    bench.captured(&published).await;
    office.stop().await;

    bench.exactly_once(&published).await;
}

/// Waits on purpose, for as long as we wait for an answer: the peer is gone without a word, and only we can notice.
#[tokio::test]
async fn a_database_that_falls_silent_is_given_up_and_another_connection_is_tried() {
    let bench = Bench::new().await;
    let link = bench.link_to_database().await;
    let mut plan = bench.plan().database_over(&link);
    plan.address.heartbeat_s = Some(2);
    let office = plan.start();
    office.receiving().await;
    let published = numbered(0, 400);
    bench.rabbit.publish_to(&bench.queue, &published[..200]).await;
    bench.captured(&published[..200]).await;

    link.freeze();
    bench.rabbit.publish_to(&bench.queue, &published[200..]).await;
    eventually("the silence is noticed", SOON * 4, async || office.metrics.is_blocked().then_some(())).await;
    assert!(office.metrics.is_up(), "the broker's session lives on");
    // What hung is thrown away, not used again: its bytes stay where they are.
    link.cut();
    link.thaw();
    bench.captured(&published).await;
    bench.drained(&office).await;
    office.stop().await;

    bench.exactly_once(&published).await;
}

#[tokio::test]
async fn a_silent_database_does_not_hold_up_the_hard_stop_and_nothing_is_lost() {
    let bench = Bench::new().await;
    let link = bench.link_to_database().await;
    let office = bench.plan().database_over(&link).start();
    office.receiving().await;
    link.freeze();
    let published = bench.publish_numbered(300).await;
    eventually("messages are in hand", SOON, async || (office.metric("dlo_inflight_bytes") > 0.0).then_some(())).await;

    office.stop_hard().await;
    bench.rabbit.wait_for_ready(&bench.queue, 300).await;
    link.thaw();
    let office = bench.plan().start();
    bench.captured(&published).await;
    office.stop().await;

    bench.exactly(&published).await;
}

#[tokio::test]
async fn an_orderly_stop_writes_and_acks_what_is_in_hand() {
    let bench = Bench::new().await;
    let published = bench.publish_numbered(2_000).await;
    let office = bench.plan().rows(200).start();
    eventually("some letters", SOON, async || (bench.database.count().await > 0).then_some(())).await;
    office.stop().await;

    let stored = bench.database.count().await;
    bench.rabbit.wait_for_ready(&bench.queue, u32::try_from(2_000 - stored).expect("small")).await;
    let office = bench.plan().start();
    bench.captured(&published).await;
    office.stop().await;

    assert_eq!(bench.exactly(&published).await, 0, "a restart in good order makes no copies");
}

#[tokio::test]
async fn what_is_held_while_the_database_is_away_is_bounded_by_the_budget() {
    let bench = Bench::new().await;
    let published: Vec<_> = (0..200)
        .map(|n| crate::support::messages::message(crate::support::messages::random_bytes(1 << 20, n)))
        .collect();
    bench.rabbit.publish_to(&bench.queue, &published).await;
    let mut lock = bench.database.pool.begin().await.expect("begun");
    lock.execute("LOCK TABLE dead_letter_queue IN SHARE ROW EXCLUSIVE MODE").await.expect("locked");
    let office = bench.plan().start();
    eventually("the window is used up", SOON, async || {
        (bench.rabbit.ready(&bench.queue).await <= 200 - 20).then_some(())
    })
    .await;
    // The broker's own account of it, which lags by seconds.
    let unacked = eventually("statistics", SOON, async || {
        bench.rabbit.management.queue(&bench.queue).await?["messages_unacknowledged"].as_u64().filter(|n| *n > 0)
    })
    .await;
    assert!(unacked <= 24, "{unacked} MiB in hand");
    assert!(200 - bench.rabbit.ready(&bench.queue).await <= 24);
    assert!(office.metric("dlo_inflight_bytes") <= f64::from(25 << 20));

    lock.rollback().await.expect("released");
    bench.captured(&published).await;
    let held = 200 - i64::from(bench.rabbit.ready(&bench.queue).await);
    assert!(held <= 200);
    office.stop().await;
    bench.exactly(&published).await;
}
