//! Links that go down, fall silent, or forget the connections they had.

use std::time::{Duration, Instant};

use super::settles;
use crate::support::{
    SOON,
    database::Database,
    eventually,
    link::Link,
    load::Load,
    program::{Program, Setup},
    rabbit::Rabbit,
    short_or_long,
};

/// What a link does, and undoes.
#[derive(Clone, Copy)]
enum Outage {
    /// Connections are reset, new ones refused.
    Down,
    /// Not a byte passes, nobody is told.
    Frozen,
    /// Connections that were there stay silent for ever; new ones pass. A firewall that was restarted.
    Forgotten,
}

impl Outage {
    fn begin(self, link: &Link) {
        match self {
            Self::Down => link.down(),
            Self::Frozen => link.freeze(),
            Self::Forgotten => link.forget(),
        }
    }

    fn end(self, link: &Link) {
        match self {
            Self::Down => link.up(),
            Self::Frozen => link.thaw(),
            Self::Forgotten => {}
        }
    }
}

#[tokio::test]
async fn the_database_is_away() {
    database_outage("database down", Outage::Down, Duration::from_secs(short_or_long(10, 60))).await;
}

#[tokio::test]
async fn the_database_is_silent() {
    database_outage("database frozen", Outage::Frozen, Duration::from_secs(short_or_long(15, 90))).await;
}

async fn database_outage(test: &str, outage: Outage, lasts: Duration) {
    let began = Instant::now();
    let Scene { rabbit, database, broker_link: _broker_link, database_link, setup, mut program, load } =
        scene(lasts).await;

    outage.begin(&database_link);
    let since = Instant::now();
    // Polled by its orchestrator all the time.
    eventually("readiness is 503", SOON, async || (program.status("/readyz").await == Some(503)).then_some(())).await;
    let lag = eventually("the lag rises", SOON, async || {
        assert!(since.elapsed() > lasts || program.status("/readyz").await == Some(503), "ready without a database");
        program.metric("dlo_source_lag_messages{").await.filter(|lag| *lag > 500.0)
    })
    .await;
    assert_eq!(program.status("/livez").await, Some(200), "an outage is no reason to be restarted");
    assert_eq!(program.metric("dlo_source_up{").await, Some(1.0), "the broker is well");
    tokio::time::sleep(lasts.saturating_sub(since.elapsed())).await;
    outage.end(&database_link);
    let restored = Instant::now();
    eventually("readiness is 200", SOON, async || (program.status("/readyz").await == Some(200)).then_some(())).await;
    let ready_after = restored.elapsed();

    let sent = load.finished().await;
    sent.stored(&database, super::CATCH_UP).await;
    program.wait_for_metric("dlo_source_lag_messages{", 0.0, SOON).await;
    let figures = settles(&mut program, &rabbit, &database, &setup, &sent).await;
    let told = program.log().matches("cannot look for replays").count();
    assert!(told <= 1 + lasts.as_secs() as usize / 30, "the same outage told {told} times");
    figures.print(test, &format!("{lasts:?} away, lag {lag}, ready after {ready_after:.1?}"), began);
}

#[tokio::test]
async fn the_broker_is_away() {
    broker_outage("broker down", Outage::Down, Duration::from_secs(short_or_long(10, 60))).await;
}

#[tokio::test]
async fn the_broker_is_silent() {
    broker_outage("broker frozen", Outage::Frozen, Duration::from_secs(short_or_long(15, 90))).await;
}

async fn broker_outage(test: &str, outage: Outage, lasts: Duration) {
    let began = Instant::now();
    let Scene { rabbit, database, broker_link, database_link: _database_link, setup, mut program, load } =
        scene(lasts).await;

    outage.begin(&broker_link);
    let since = Instant::now();
    program.wait_for_metric("dlo_source_up{", 0.0, SOON).await;
    let noticed = since.elapsed();
    assert_eq!(program.status("/readyz").await, Some(200), "its database answers");
    tokio::time::sleep(lasts.saturating_sub(since.elapsed())).await;
    outage.end(&broker_link);
    let restored = Instant::now();
    program.receiving().await;
    let back_after = restored.elapsed();

    let sent = load.finished().await;
    let figures = settles(&mut program, &rabbit, &database, &setup, &sent).await;
    figures.print(test, &format!("{lasts:?} away, seen after {noticed:.1?}, back after {back_after:.1?}"), began);
}

/// Nothing is reset, so nobody but we ourselves can find out.
#[tokio::test]
async fn connections_are_forgotten_on_the_way() {
    let began = Instant::now();
    let Scene { rabbit, database, broker_link, database_link, setup, mut program, load } =
        scene(Duration::from_secs(5)).await;

    Outage::Forgotten.begin(&database_link);
    let since = Instant::now();
    eventually("ready over new connections", Duration::from_secs(90), async || {
        (program.status("/readyz").await == Some(200)).then_some(())
    })
    .await;
    let ready_after = since.elapsed();
    captures_more(&database, Duration::from_secs(150)).await;
    let captures_after = since.elapsed();
    Outage::Forgotten.begin(&broker_link);

    let sent = load.finished().await;
    let figures = settles(&mut program, &rabbit, &database, &setup, &sent).await;
    let what = format!("ready again after {ready_after:.1?}, captures after {captures_after:.1?}");
    figures.print("connections forgotten", &what, began);
}

async fn captures_more(database: &Database, within: Duration) {
    let before = database.count().await;
    eventually("it captures again", within, async || (database.count().await > before).then_some(())).await;
}

/// A program in full flow, with a link before each service.
struct Scene {
    rabbit: Rabbit,
    database: Database,
    broker_link: Link,
    database_link: Link,
    setup: Setup,
    program: Program,
    load: Load,
}

/// The load lasts a few seconds longer than an outage that `lasts` so long.
async fn scene(lasts: Duration) -> Scene {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let (broker_link, database_link) = (Link::to(&rabbit.host_and_port()).await, Link::to(&database.address()).await);
    let setup = Setup::new(&rabbit, &database)
        .user(&rabbit, "s3cr3t-of-one")
        .await
        .broker_over(&broker_link)
        .database_over(&database_link)
        .heartbeat(3);
    let program = setup.start();
    program.receiving().await;
    let rate = short_or_long(600, 1_500);
    let load = Load::start(&rabbit, &setup.exchange, rate * (lasts.as_secs() as usize + 8), rate);
    eventually("it flows", SOON, async || (database.count().await > 500).then_some(())).await;
    Scene { rabbit, database, broker_link, database_link, setup, program, load }
}
