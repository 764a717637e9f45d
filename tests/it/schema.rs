//! The schema: its migrations, its rules, its partitions.

use std::time::Duration;

use chrono::{DateTime, Datelike, Months, Utc};
use dead_letter_office::{dead_letter::Status, policy::moves, store::partitions::MONTHS_AHEAD};
use sqlx::{Connection, Executor, PgConnection};

use crate::support::{
    SOON,
    bench::Bench,
    capture::Plan,
    database::{Database, now},
    eventually,
    messages::numbered,
    rabbit::Rabbit,
    services,
};

#[tokio::test]
async fn ten_that_start_at_once_migrate_once() {
    let database = Database::empty().await;
    let migrations = (0..10).map(|_| {
        let store = database.store();
        async move { store.migrate().await }
    });

    let applied = futures_util::future::join_all(migrations).await;

    assert!(applied.iter().all(Result::is_ok), "{applied:?}");
    assert!(database.store().missing().await.expect("asked").is_empty());
    assert_eq!(database.count().await, 0);
}

#[tokio::test]
async fn the_databases_rule_of_status_moves_is_the_one_in_the_code() {
    let database = Database::fresh().await;
    let mut connection = PgConnection::connect_with(&database.options()).await.expect("connects");
    for from in Status::ALL {
        let insert =
            "INSERT INTO dead_letter_queue (service_name, event_type, status) VALUES ('s', 'e', $1) RETURNING id";
        let id: i64 =
            sqlx::query_scalar(insert).bind(from.as_str()).fetch_one(&mut connection).await.expect("inserted");
        for to in Status::ALL {
            let mut attempt = connection.begin().await.expect("begun");
            let moved = sqlx::query("UPDATE dead_letter_queue SET status = $1 WHERE id = $2")
                .bind(to.as_str())
                .bind(id)
                .execute(&mut *attempt)
                .await;
            attempt.rollback().await.expect("rolled back");

            let allowed = from == to || moves::allowed(from).contains(&to);
            assert_eq!(moved.is_ok(), allowed, "{from:?} to {to:?}: {moved:?}");
            if let Err(error) = moved {
                let error = error.into_database_error().expect("the database's own");
                assert_eq!((error.code().as_deref(), error.constraint()), (Some("23514"), Some("dlo_status_move")));
            }
        }
    }
}

#[tokio::test]
async fn a_service_that_knows_nothing_of_us_inserts_with_plain_sql() {
    let database = Database::fresh().await;

    let id: i64 = database
        .scalar(
            "INSERT INTO dead_letter_queue (service_name, event_type, payload, error_message, traceback, status)
             VALUES ('billing', 'InvoiceDue', '{\"invoice\": 7}', 'no such customer', 'Traceback …', 'PENDING_RETRY') RETURNING id",
        )
        .await;

    let letter = database.letter().await;
    assert_eq!((letter.id, letter.retry_count, letter.status.as_str()), (id, 0, "PENDING_RETRY"));
    assert_eq!((letter.broker_kind.as_str(), letter.payload_state.as_str()), ("sql", "sql"));
    assert!((now() - letter.created_at).num_seconds().abs() < 60);
}

#[tokio::test]
async fn a_status_that_nobody_knows_is_refused() {
    let database = Database::fresh().await;

    let insert = "INSERT INTO dead_letter_queue (service_name, event_type, status) VALUES ('s', 'e', 'failed')";
    let refused = database.pool.execute(insert).await.expect_err("refused");

    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("23514"));
}

/// The first moment of the month that is `ahead` months from `at`'s.
fn month(at: DateTime<Utc>, ahead: u32) -> DateTime<Utc> {
    let first = at.date_naive().with_day(1).expect("every month has a first") + Months::new(ahead);
    first.and_hms_opt(0, 0, 0).expect("midnight").and_utc()
}

async fn insert_at(database: &Database, at: DateTime<Utc>, status: &str) -> i64 {
    sqlx::query_scalar(
        "INSERT INTO dead_letter_queue (service_name, event_type, status, created_at) VALUES ('s', 'e', $1, $2) RETURNING id",
    )
    .bind(status)
    .bind(at)
    .fetch_one(&database.pool)
    .await
    .expect("inserted")
}

async fn partition_of(database: &Database, id: i64) -> String {
    database.scalar(&format!("SELECT tableoid::regclass::text FROM dead_letter_queue WHERE id = {id}")).await
}

fn partition(at: DateTime<Utc>) -> String {
    format!("dead_letter_queue_{}", at.format("%Y_%m"))
}

#[tokio::test]
async fn partitions_are_made_ahead_with_all_that_belongs_to_them() {
    let database = Database::fresh().await;

    for ahead in 0..=MONTHS_AHEAD {
        let first = month(now(), ahead);
        // To the last moment of the month, whatever the time zone of the session.
        for at in [first, month(now(), ahead + 1) - chrono::Duration::microseconds(1)] {
            let id = insert_at(&database, at, "FAILED").await;
            assert_eq!(partition_of(&database, id).await, partition(first));
        }
    }
    let name = partition(now());
    let indexes: i64 = database.scalar(&format!("SELECT count(*) FROM pg_indexes WHERE tablename = '{name}'")).await;
    let of_parent: i64 = database.scalar("SELECT count(*) FROM pg_indexes WHERE tablename = 'dead_letter_queue'").await;
    assert_eq!(indexes, of_parent);
    assert!(database.pool.execute(format!("UPDATE {name} SET status = 'DUPLICATE'").as_str()).await.is_err());
    let again = database.store().maintain(now(), None).await.expect("maintained");
    assert_eq!((again.created, again.moved), (0, 0));
}

#[tokio::test]
async fn partitions_do_not_depend_on_the_time_zone_of_whoever_makes_them() {
    let database = Database::empty().await;
    database.store().migrate().await.expect("migrated");
    let name = &database.name;
    for zone in ["Pacific/Kiritimati", "America/Los_Angeles", "UTC"] {
        database.execute_on_server(&format!("ALTER DATABASE {name} SET timezone = '{zone}'")).await;
        let months = if zone == "UTC" { 4 } else { 1 };
        let later = now() + Months::new(months);
        database.store().maintain(later, None).await.unwrap_or_else(|error| panic!("{zone}: {error}"));
    }
}

#[tokio::test]
async fn a_row_for_which_there_was_no_partition_is_moved_into_one() {
    let database = Database::fresh().await;
    let beyond = month(now(), MONTHS_AHEAD + 1) + chrono::Duration::hours(7);
    let far = month(now(), MONTHS_AHEAD + 20);
    let (late, farther) = (insert_at(&database, beyond, "FAILED").await, insert_at(&database, far, "FAILED").await);
    assert_eq!(partition_of(&database, late).await, "dead_letter_queue_default");

    let done = database.store().maintain(now() + Months::new(1), None).await.expect("maintained");

    assert_eq!((done.created, done.moved), (1, 1));
    assert_eq!(partition_of(&database, late).await, partition(beyond));
    assert_eq!(partition_of(&database, farther).await, "dead_letter_queue_default");
    let indexed: bool = database
        .scalar(&format!("SELECT EXISTS (SELECT FROM dead_letter_queue WHERE id = {late} AND created_at = '{beyond}')"))
        .await;
    assert!(indexed);
}

#[tokio::test]
async fn capture_goes_on_while_maintenance_waits_for_a_long_transaction() {
    let bench = Bench::new().await;
    let office = bench.plan().start();
    office.receiving().await;
    // Somebody reads, all partitions, for long.
    let mut reader = bench.database.pool.begin().await.expect("begun");
    reader.execute("SELECT count(*) FROM dead_letter_queue").await.expect("read");
    let store = bench.database.store();
    let later = now() + Months::new(1);
    let maintaining = tokio::spawn(async move { store.maintain(later, Some(Duration::from_secs(1))).await });

    let published = numbered(0, 500);
    let started = std::time::Instant::now();
    for part in published.chunks(50) {
        bench.rabbit.publish_to(&bench.queue, part).await;
    }
    eventually("all letters", SOON, async || {
        let found: i64 =
            sqlx::query_scalar("SELECT count(*) FROM dead_letter_queue").fetch_one(&mut *reader).await.ok()?;
        (found == 500).then_some(())
    })
    .await;
    // The lock timeout of maintenance, and what this machine needs at its worst.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let maintained = maintaining.await.expect("ran");
    assert!(maintained.is_err(), "it gave up rather than wait: {maintained:?}");

    reader.rollback().await.expect("ended");
    let done = bench.database.store().maintain(later, None).await.expect("the next round succeeds");
    assert_eq!(done.created, 1);
    office.stop().await;
}

#[tokio::test]
async fn retention_removes_what_is_closed_and_keeps_what_is_open() {
    let database = Database::fresh().await;
    let store = database.store();
    let year_ago = now() - Months::new(12);
    store.maintain(year_ago, None).await.expect("old partitions");
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    for status in Status::ALL {
        let id = insert_at(&database, year_ago, status.as_str()).await;
        match status {
            Status::Failed | Status::PendingRetry | Status::Replaying | Status::Dead => open.push(id),
            _ => closed.push(id),
        }
    }
    let recent = insert_at(&database, now(), "RESOLVED").await;
    let in_second = insert_at(&database, month(year_ago, 1), "RESOLVED").await;

    let done = store.maintain(now(), Some(Duration::from_secs(90 * 86_400))).await.expect("maintained");

    let left: Vec<i64> = sqlx::query_scalar("SELECT id FROM dead_letter_queue ORDER BY id")
        .fetch_all(&database.pool)
        .await
        .expect("read");
    assert_eq!(left, [&open[..], &[recent]].concat());
    assert_eq!(done.removed, closed.len() as u64 + 1, "{in_second} as well");
    // Of the four old months only the first still holds something.
    assert_eq!(done.dropped, 3);
    assert_eq!(partition_of(&database, open[0]).await, partition(year_ago));
}

#[tokio::test]
async fn retention_removes_many_rows_in_pieces() {
    let database = Database::fresh().await;
    database
        .execute(
            "INSERT INTO dead_letter_queue (service_name, event_type, status, created_at)
             SELECT 's', 'e', 'RESOLVED', now() - interval '40 days' FROM generate_series(1, 12000)",
        )
        .await;

    let done = database.store().maintain(now(), Some(Duration::from_secs(30 * 86_400))).await.expect("maintained");

    assert_eq!((done.removed, database.count().await), (12_000, 0));
}

#[tokio::test]
async fn sessions_that_nothing_can_come_again_from_are_forgotten_after_a_day() {
    let database = Database::fresh().await;
    database
        .execute(
            "INSERT INTO dlo_capture_sessions (source, queue, instance, floor_id, ceiling_id, closed_at) VALUES
             ('settled', 'q', 'i', 7, 7, now() - interval '2 days'), ('unsettled', 'q', 'i', 6, 7, now() - interval '2 days'),
             ('recent', 'q', 'i', 7, 7, now()), ('open', 'q', 'i', 7, 7, NULL)",
        )
        .await;

    database.store().maintain(now(), None).await.expect("maintained");

    let left: String =
        database.scalar("SELECT string_agg(source, ' ' ORDER BY source) FROM dlo_capture_sessions").await;
    assert_eq!(left, "open recent unsettled");
}

#[tokio::test]
async fn wide_columns_are_compressed_with_lz4_where_the_server_has_it() {
    let database = Database::fresh().await;
    let has_lz4: bool = database
        .scalar("SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")
        .await;
    let expected = if has_lz4 { 7 } else { 0 };

    for table in ["dead_letter_queue".to_owned(), partition(now()), "dead_letter_queue_default".to_owned()] {
        let compressed: i64 = database
            .scalar(&format!(
                "SELECT count(*) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attcompression = 'l'"
            ))
            .await;
        assert_eq!(compressed, expected, "{table}");
    }
}

/// PostgreSQL 18 of the tests is built without lz4.
#[tokio::test]
async fn a_server_without_lz4_captures_as_well() {
    let url = services::postgres18_url();
    let options: sqlx::postgres::PgConnectOptions = url.parse().expect("an address");
    if tokio::net::TcpStream::connect((options.get_host(), options.get_port())).await.is_err() {
        eprintln!("skipped: no PostgreSQL 18");
        return;
    }
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh_at(&url).await);
    let queue = rabbit.queue(dead_letter_office::source::rabbitmq::topology::QueueType::Quorum).await;
    let published = numbered(0, 100);
    rabbit.publish_to(&queue, &published).await;
    let office = Plan::new(&rabbit, &database, &queue).start();
    eventually("all rows", SOON, async || (database.count().await == 100).then_some(())).await;
    office.stop().await;

    let lz4: i64 = database.scalar("SELECT count(*) FROM pg_attribute WHERE attcompression = 'l'").await;
    assert_eq!(lz4, 0);
}

#[tokio::test]
async fn a_schema_newer_than_the_program_is_left_alone() {
    let database = Database::fresh().await;
    database
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'of a later version', true, '\\x00', 0)",
        )
        .await;

    assert_eq!(database.store().migrate().await.expect("nothing to do"), 0);
}
