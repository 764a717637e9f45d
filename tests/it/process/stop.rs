//! SIGTERM: under load, without a database, twice, and as the first thing.

use std::{
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use dead_letter_office::source::rabbitmq::topology::QueueType;

use super::settles;
use crate::support::{
    SOON,
    database::Database,
    eventually,
    link::{Fault, Link},
    load::Load,
    messages::numbered,
    program::{Program, Setup},
    rabbit::Rabbit,
    seeded, short_or_long,
};

/// What comes after the deadline: letting go of brokers and database.
const FAREWELL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn stopped_under_load_it_ends_in_order_and_nothing_is_stored_twice() {
    let (began, (seed, mut random)) = (Instant::now(), seeded());
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup::new(&rabbit, &database);
    let mut program = setup.start();
    program.receiving().await;

    let stops = 4;
    let messages = short_or_long(8_000, 100_000);
    let load = Load::start(&rabbit, &setup.exchange, messages, short_or_long(1_000, 4_000));
    let mut longest = Duration::ZERO;
    for _ in 0..stops {
        tokio::time::sleep(Duration::from_millis(random.u64(100..1_500))).await;
        longest = longest.max(program.stop(Duration::from_secs(setup.deadline_s)).await);
        program = setup.start();
        program.receiving().await;
    }
    let sent = load.finished().await;

    let figures = settles(&mut program, &rabbit, &database, &setup, &sent).await;
    assert_eq!(figures.duplicates, 0);
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    figures.print("SIGTERM under load", &format!("{stops} stops, longest {longest:.1?} (seed {seed})"), began);
}

#[tokio::test]
async fn stopped_idle_it_ends_at_once() {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup::new(&rabbit, &database);
    let mut program = setup.start();
    program.receiving().await;
    rabbit.publish(&setup.exchange, "order.failed", &numbered(0, 100)).await;
    eventually("the rows", SOON, async || (database.count().await == 100).then_some(())).await;

    let took = program.stop(SOON).await;
    let mut again = setup.start();
    again.receiving().await;
    rabbit.publish(&setup.exchange, "order.failed", &numbered(100, 1)).await;
    eventually("the next", SOON, async || (database.count().await > 100).then_some(())).await;
    again.stop(SOON).await;

    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(database.count().await, 101, "nothing came again");
}

#[tokio::test]
async fn stopped_while_the_database_is_away_it_ends_within_its_deadline_and_nothing_is_lost() {
    for silent in [false, true] {
        let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
        let link = Link::to(&database.address()).await;
        let setup = Setup { deadline_s: 4, ..Setup::new(&rabbit, &database).database_over(&link) };
        let mut program = setup.start();
        program.receiving().await;
        if silent {
            link.freeze()
        } else {
            link.down()
        }
        let load = Load::start(&rabbit, &setup.exchange, 1_000, 2_000);
        let sent = load.finished().await;
        has_a_batch_in_hand(&program).await;

        let took = program.stop(Duration::from_secs(setup.deadline_s) + FAREWELL).await;
        println!("stopped in {took:.1?} with the database {}", if silent { "silent" } else { "away" });
        link.thaw();
        link.up();
        let mut again = setup.start();
        settles(&mut again, &rabbit, &database, &setup, &sent).await;
    }
}

/// What was sent is in doubt and says so, what was not waits for the next instance: nothing stays on its way until
/// somebody comes by.
#[tokio::test]
async fn stopped_while_confirms_are_missing_it_leaves_nothing_on_its_way() {
    for signals in [1, 2] {
        let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
        let link = Link::to(&rabbit.host_and_port()).await;
        let deadline_s = if signals == 1 { 4 } else { 120 };
        let setup = Setup { deadline_s, ..Setup::new(&rabbit, &database).broker_over(&link) };
        let home = rabbit.queue(QueueType::Classic).await;
        let mut program = setup.start();
        program.receiving().await;
        rabbit.publish(&setup.exchange, "order.failed", &numbered(0, 20)).await;
        eventually("the rows", SOON, async || (database.count().await == 20).then_some(())).await;
        link.on(b"dlo-replay-id", Fault::SwallowAnswers);
        database.request_replays_to(&home).await;
        link.sprung().await;
        // The first message of a lane goes alone, so the others are still to be sent.
        rabbit.wait_for_ready(&home, 1).await;
        eventually("some are in hand", SOON, async || {
            database.statuses().await.get("REPLAYING").filter(|letters| **letters > 1).map(drop)
        })
        .await;

        if signals == 2 {
            program.signal("TERM");
            eventually("it is stopping", SOON, async || program.log().contains("stopping").then_some(())).await;
        }
        let took = program.stop(if signals == 1 { Duration::from_secs(4) + FAREWELL } else { FAREWELL }).await;
        println!("stopped in {took:.1?} after {signals} signals without confirms");

        assert_eq!(database.replays().await, [("IN_DOUBT".to_owned(), 1), ("PENDING".to_owned(), 19)].into());
        assert_eq!(database.statuses().await, [("FAILED".to_owned(), 20)].into());
        let mut again = Setup { broker: rabbit.urls.amqp.parse().expect("an address"), ..setup }.start();
        rabbit.wait_for_ready(&home, 20).await;
        again.stop(SOON).await;
    }
}

async fn has_a_batch_in_hand(program: &Program) {
    eventually("a batch in hand", SOON, async || {
        program.metric("dlo_inflight_bytes").await.filter(|bytes| *bytes > 0.0)
    })
    .await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let link = Link::to(&database.address()).await;
    let setup = Setup { deadline_s: 120, ..Setup::new(&rabbit, &database).database_over(&link) };
    let mut program = setup.start();
    program.receiving().await;
    link.down();
    rabbit.publish(&setup.exchange, "order.failed", &numbered(0, 100)).await;
    has_a_batch_in_hand(&program).await;

    program.signal("TERM");
    eventually("it is stopping", SOON, async || program.log().contains("stopping").then_some(())).await;
    assert!(program.is_running(), "it waits for the database");
    let began = Instant::now();
    program.signal("TERM");
    program.ended(FAREWELL).await;
    println!("second signal: ended in {:.1?}", began.elapsed());
}

#[tokio::test]
async fn a_signal_is_heard_at_every_moment_of_the_start() {
    let (rabbit, database) = (Rabbit::connect().await, Database::empty().await);
    let setup = Setup::new(&rabbit, &database);
    for after_ms in [0, 3, 10, 20, 40, 80, 160, 320, 640] {
        let mut program = setup.start();
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        program.signal("TERM");
        let status = program.ended(Duration::from_secs(5)).await;
        // Before it can listen, the system ends it: nothing has begun.
        let early = status.signal() == Some(15) && program.log().is_empty();
        assert!(early || status.code() == Some(0), "after {after_ms} ms: {status}\n{}", program.log());
    }
}

#[tokio::test]
async fn a_signal_is_heard_while_it_waits_for_the_database() {
    let (rabbit, database) = (Rabbit::connect().await, Database::empty().await);
    let link = Link::to(&database.address()).await;
    let setup = Setup::new(&rabbit, &database).database_over(&link);
    for silent in [false, true] {
        if silent {
            link.freeze()
        } else {
            link.down()
        }
        let mut program = setup.start();
        eventually("it lives", SOON, async || (program.status("/livez").await == Some(200)).then_some(())).await;
        let took = program.stop(SOON).await;
        assert!(took < FAREWELL, "{took:?}");
        link.up();
    }
}
