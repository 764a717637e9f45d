//! Rows that the database refuses for a reason nobody foresaw: somebody's CHECK stands for it.

use std::{sync::Arc, time::Duration};

use dead_letter_office::{
    dead_letter::{CapturedFrom, DeadLetter, Ids, Reading, SourceInfo, Status},
    message::{AmqpProperties, RawMessage},
    source::Claim,
    store::WriteError,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    SOON,
    bench::Bench,
    database::{Database, Tally, store_with},
    eventually,
    messages::{bodies, headers, message, numbered, text, without_counts},
};

const NOT_FORBIDDEN: &str = "ALTER TABLE dead_letter_queue ADD CHECK (event_type <> 'Forbidden')";
const NOT_EVEN_BYTES: &str =
    "ALTER TABLE dead_letter_queue ADD CHECK (position('forbidden'::bytea IN coalesce(body, '')) = 0)";

fn forbidden(n: usize) -> RawMessage {
    let properties = AmqpProperties { kind: Some("Forbidden".into()), ..AmqpProperties::default() };
    RawMessage::amqp(properties, headers([("tenant", text("eu-1"))]), format!(r#"{{"forbidden": {n}}}"#))
}

async fn with_bad_ones_at(bad: &[usize], total: usize) {
    let bench = Bench::new().await;
    bench.database.execute(NOT_FORBIDDEN).await;
    let mut messages = numbered(0, total);
    for at in bad {
        messages[*at] = forbidden(*at);
    }

    let letters = bench.send_and_capture(&messages).await;

    assert_eq!(bench.database.failed().await, Tally::of(bodies(&messages)));
    let refused: Vec<_> = letters.iter().filter(|letter| letter.notes.is_some()).collect();
    assert_eq!(refused.len(), bad.len(), "only the bad ones are stored with less");
    for letter in refused {
        assert_eq!((letter.note("stored_as"), letter.event_type.as_str()), (Some("bytes only"), "unknown"));
        assert!(letter.note("refused").is_some_and(|why| why.contains("23514")), "{:?}", letter.notes);
        assert_eq!(without_counts(&letter.message().headers), headers([("tenant", text("eu-1"))]));
    }
    let quarantined: i64 = bench.database.scalar("SELECT count(*) FROM dlo_quarantine").await;
    assert_eq!(quarantined, 0);
}

#[tokio::test]
async fn three_bad_letters_far_apart_are_stored_as_bytes_and_all_others_in_full() {
    with_bad_ones_at(&[3, 1_500, 2_999], 3_000).await;
}

#[tokio::test]
async fn two_bad_letters_side_by_side_are_stored_as_bytes() {
    with_bad_ones_at(&[499, 500], 1_000).await;
}

#[tokio::test]
async fn a_batch_of_nothing_but_bad_letters_is_stored_as_bytes() {
    with_bad_ones_at(&(0..100).collect::<Vec<_>>(), 100).await;
}

#[tokio::test]
async fn what_is_refused_even_as_bytes_is_quarantined_and_acked() {
    let bench = Bench::new().await;
    bench.database.execute(NOT_EVEN_BYTES).await;
    let mut messages = numbered(0, 200);
    messages[20] = forbidden(20);
    messages[21] = forbidden(21);
    messages[199] = forbidden(199);
    bench.rabbit.publish_to(&bench.queue, &messages).await;

    bench.capture(197).await;
    eventually("the quarantine", SOON, async || {
        let quarantined: i64 = bench.database.scalar("SELECT count(*) FROM dlo_quarantine").await;
        (quarantined == 3).then_some(())
    })
    .await;

    let rows: Vec<(String, String, Vec<u8>, Vec<u8>)> =
        sqlx::query_as("SELECT source, error, body, wire FROM dlo_quarantine ORDER BY id")
            .fetch_all(&bench.database.pool)
            .await
            .expect("read");
    for ((source, error, body, wire), n) in rows.iter().zip([20, 21, 199]) {
        assert_eq!((source.as_str(), Some(&body[..])), ("orders", forbidden(n).body.as_deref()));
        assert!(error.contains("23514"), "{error}");
        let again = dead_letter_office::message::wire::decode(wire, None).expect("decodes");
        assert_eq!((again.properties, without_counts(&again.headers)), (forbidden(n).properties, forbidden(n).headers));
    }
}

fn letters(count: usize, body: usize) -> Vec<DeadLetter> {
    let source = Arc::new(SourceInfo {
        name: "orders".to_owned(),
        broker: "rabbit".to_owned(),
        broker_kind: "rabbitmq",
        vhost: None,
        service: None,
    });
    let one = |n: usize| DeadLetter {
        source: Arc::clone(&source),
        captured: CapturedFrom::default(),
        message: message(format!("{n:0body$}")),
        reading: Reading::default(),
        ids: Ids::default(),
        status: Status::Failed,
        replay_of: None,
        duplicate_of: None,
        session: None,
    };
    (0..count).map(one).collect()
}

#[tokio::test]
async fn copies_that_fail_in_any_way_do_not_poison_the_pool() {
    let database = Database::fresh().await;
    database.execute(NOT_FORBIDDEN).await;
    let store = store_with(database.options(), 2);
    let mut turn = CancellationToken::new();
    turn.cancel();
    let mut random = fastrand::Rng::with_seed(11);
    let mut claim = Claim::None;

    for round in 0..80 {
        match round % 4 {
            // Cancelled in the middle of sending.
            0 => {
                let mut rows = letters(200, 20_000);
                let patience = Duration::from_micros(random.u64(0..20_000));
                let _ = tokio::time::timeout(patience, store.write(&mut rows, &mut claim, &turn)).await;
            }
            // Refused at its end.
            1 => {
                let mut rows = letters(20, 10);
                rows[19].reading.event_type = Some("Forbidden".to_owned());
                let refused = store.write(&mut rows, &mut claim, &turn).await;
                assert!(matches!(refused, Err(WriteError::Refused(_))), "{refused:?}");
            }
            // Ended by the server.
            2 => {
                let mut rows = letters(400, 20_000);
                let (_, terminated) = tokio::join!(store.write(&mut rows, &mut claim, &turn), async {
                    tokio::task::yield_now().await;
                    database.terminate_connections().await
                });
                let _ = terminated;
            }
            // Waits in vain for its turn, holding a connection.
            _ => {
                turn = CancellationToken::new();
                let mut rows = letters(5, 10);
                let waiting = store.write(&mut rows, &mut claim, &turn);
                assert!(tokio::time::timeout(Duration::from_millis(20), waiting).await.is_err());
                turn.cancel();
            }
        }
    }

    database.execute("TRUNCATE dead_letter_queue").await;
    let mut rows = letters(1_000, 100);
    let stored = tokio::time::timeout(Duration::from_secs(10), store.write(&mut rows, &mut claim, &turn)).await;
    assert_eq!(stored.expect("promptly").expect("written").rows, 1_000);
    assert_eq!(database.count().await, 1_000);
    let connections =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'dlo'";
    eventually("no connection is left behind", SOON, async || {
        let connections: i64 = database.scalar(connections).await;
        (connections <= 2).then_some(())
    })
    .await;
    let copying: i64 = database.scalar(&format!("{connections} AND (query LIKE 'COPY%' AND state <> 'idle')")).await;
    assert_eq!(copying, 0);
}
