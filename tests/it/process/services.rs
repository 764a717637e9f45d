//! The services themselves stop and crash. Run by `tests/outage`, which has services of its own.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use super::{Figures, LOG_BYTES};
use crate::support::{
    database::Database,
    eventually,
    load::Load,
    program::{Program, Setup},
    rabbit::Rabbit,
    short_or_long,
};

/// Services take as long to start as they take.
const UP_AGAIN: Duration = Duration::from_secs(120);

#[tokio::test]
#[ignore = "stops the services: tests/outage runs it on some of its own"]
async fn the_services_stop_and_crash_in_full_flow() {
    let began = Instant::now();
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup::new(&rabbit, &database);
    let mut program = setup.start();
    program.receiving().await;
    let load = Load::endless(&rabbit, &setup.exchange, short_or_long(500, 2_000));
    flows(&database).await;

    services(&["kill", "postgres"]).await;
    tokio::time::sleep(Duration::from_secs(short_or_long(10, 60))).await;
    services(&["up", "postgres"]).await;
    flows(&database).await;
    services(&["restart", "postgres"]).await;
    flows(&database).await;
    for verbs in [&[["restart", "rabbitmq"]][..], &[["kill", "rabbitmq"], ["up", "rabbitmq"]]] {
        for verb in verbs {
            services(verb).await;
        }
        eventually("the source is up", UP_AGAIN, async || {
            program.metric("dlo_source_up{").await.filter(|up| *up == 1.0)
        })
        .await;
        flows(&database).await;
    }
    let sent = load.stop().await;

    sent.stored(&database, UP_AGAIN).await;
    let figures = ends(&mut program, &setup, &database, &sent).await;
    figures.print("services", &format!("5 outages, {} doubtful", sent.doubtful.len()), began);
}

async fn ends(program: &mut Program, setup: &Setup, database: &Database, sent: &crate::support::load::Sent) -> Figures {
    let memory = program.memory_peak_mib();
    program.stop(Duration::from_secs(setup.deadline_s)).await;
    let log = program.log().len();
    assert!(log < LOG_BYTES, "{log} bytes of log");
    // The first connection has not survived.
    Rabbit::connect().await.wait_for_empty(&setup.queue).await;
    let duplicates = sent.is_exactly_once_in(database).await;
    Figures { messages: sent.confirmed.len(), duplicates, memory, log_kb: log / 1000 }
}

async fn flows(database: &Database) {
    let count = async || database.try_scalar::<i64>("SELECT count(*) FROM dead_letter_queue").await;
    let before = eventually("the database answers", UP_AGAIN, count).await;
    eventually("messages flow", UP_AGAIN, async || count().await.filter(|now| *now > before + 100)).await;
}

/// Of the scripts that everybody uses.
async fn services(arguments: &[&str]) {
    let script = std::env::var("DLO_OUTAGE_SERVICES").expect("set by tests/outage");
    let ran = tokio::process::Command::new(script).args(arguments).stdout(Stdio::null()).status().await;
    assert!(ran.expect("dev/services is there").success(), "dev/services {arguments:?}");
}
