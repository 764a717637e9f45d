//! SIGKILL at any moment.

use std::time::{Duration, Instant};

use super::settles;
use crate::support::{database::Database, load::Load, program::Setup, rabbit::Rabbit, seeded, short_or_long};

const KILLS: usize = 10;

#[tokio::test]
async fn killed_ten_times_under_load_nothing_is_lost_and_second_copies_are_marked() {
    killed_under_load("kill -9, quorum queue", "quorum", short_or_long(20_000, 300_000)).await;
}

#[tokio::test]
async fn the_same_with_a_classic_queue() {
    killed_under_load("kill -9, classic queue", "classic", short_or_long(10_000, 300_000)).await;
}

async fn killed_under_load(test: &str, queue_type: &'static str, messages: usize) {
    let (began, (seed, mut random)) = (Instant::now(), seeded());
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup { queue_type, ..Setup::new(&rabbit, &database) };
    let mut program = setup.start();
    program.receiving().await;

    // A load that lasts a little longer than the kills.
    let life_ms = short_or_long(2_000, 8_000);
    let rate = messages * 1000 / (KILLS * life_ms * 6 / 10);
    let load = Load::start(&rabbit, &setup.exchange, messages, rate);
    let mut under_load = 0;
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(random.u64(..life_ms as u64))).await;
        program.kill();
        under_load += usize::from(!load.is_finished());
        program = setup.start();
    }
    let sent = load.finished().await;

    assert!(under_load > KILLS / 2, "only {under_load} kills met the load");
    assert!(sent.doubtful.is_empty(), "the broker was well");
    let figures = settles(&mut program, &rabbit, &database, &setup, &sent).await;
    figures.print(test, &format!("{KILLS} kills ({under_load} under load, seed {seed})"), began);
}
