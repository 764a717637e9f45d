//! Several processes on one queue: they join, leave, and are frozen in the middle of a write.

use std::time::{Duration, Instant};

use super::{Figures, MEMORY_MIB, is_discreet, settles};
use crate::support::{
    SOON, database::Database, eventually, link::Link, load::Load, program::Setup, rabbit::Rabbit, seeded, short_or_long,
};

/// Said whenever a source has a channel.
const RECEIVING: &str = " receiving ";

/// A replica that is frozen is a writer that does not know that its messages are somebody else's by now.
#[tokio::test]
async fn replicas_join_and_leave_and_one_is_frozen_again_and_again() {
    let (began, (seed, mut random)) = (Instant::now(), seeded());
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup::new(&rabbit, &database);
    // Its writes are slow, so that it is always in the middle of one when it is frozen.
    let link = Link::to(&database.address()).await;
    link.slow(Duration::from_millis(30));
    let frozen_setup = setup.clone().database_over(&link).user(&rabbit, "s3cr3t-of-one").await;
    let user = frozen_setup.broker.username().to_owned();
    let (mut steady, mut frozen) = (setup.start(), frozen_setup.start());
    steady.receiving().await;
    frozen.receiving().await;

    let freezes = short_or_long(8, 20);
    let load = Load::endless(&rabbit, &setup.exchange, short_or_long(1_000, 2_000));
    let mut third = setup.start();
    third.receiving().await;
    for freeze in 0..freezes {
        let sessions = frozen.log().matches(RECEIVING).count();
        tokio::time::sleep(Duration::from_millis(random.u64(50..600))).await;
        frozen.signal("STOP");
        // What a broker does by itself after two heartbeats without a word.
        rabbit.management.close_connections_of(&user).await;
        let away = if freeze == 0 { short_or_long(10, 180) } else { random.u64(1..4) };
        tokio::time::sleep(Duration::from_secs(away)).await;
        frozen.signal("CONT");
        let back = || {
            eventually("it is back", SOON, async || (frozen.log().matches(RECEIVING).count() > sessions).then_some(()))
        };
        // The management API lists a connection some seconds after it was made: the one that counts may have been missed.
        if tokio::time::timeout(Duration::from_secs(8), back()).await.is_err() {
            rabbit.management.close_connections_of(&user).await;
            back().await;
        }
        if freeze == freezes / 2 {
            third.stop(SOON).await;
        }
    }
    let sent = load.stop().await;

    sent.stored(&database, super::CATCH_UP).await;
    let memory = frozen.memory_peak_mib();
    frozen.stop(SOON).await;
    assert!(memory <= MEMORY_MIB, "{memory} MiB");
    is_discreet(&frozen, &frozen_setup);
    is_discreet(&third, &setup);
    let figures = settles(&mut steady, &rabbit, &database, &setup, &sent).await;
    let zombie = frozen.log().matches("channel").count();
    let figures = Figures { memory: figures.memory.max(memory), ..figures };
    figures.print("replicas", &format!("{freezes} freezes, {zombie} words about channels gone (seed {seed})"), began);
}
