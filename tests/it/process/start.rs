//! From nothing to the first message, and what is said when it cannot be.

use std::{net::TcpListener, time::Duration};

use crate::support::{
    SOON,
    database::Database,
    eventually,
    link::Link,
    messages::numbered,
    program::{Setup, free_port},
    rabbit::Rabbit,
};

/// A start that fails says so at once.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_first_message_is_captured_soon_after_the_start() {
    let (rabbit, database) = (Rabbit::connect().await, Database::empty().await);
    let setup = Setup::new(&rabbit, &database);
    let mut empty = setup.start_from_environment();
    empty.receiving().await;
    let with_schema = empty.started.elapsed();
    empty.stop(SOON).await;
    rabbit.publish(&setup.exchange, "order.failed", &numbered(0, 1)).await;

    let mut program = setup.start_from_environment();
    let captured =
        eventually("the row", SOON, async || (database.count().await == 1).then(|| program.started.elapsed())).await;
    program.stop(SOON).await;

    println!("start to first capture {captured:.2?}; start to receiving with an empty database {with_schema:.2?}");
    assert!(captured < Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 }), "{captured:?}");
}

#[tokio::test]
async fn it_starts_before_its_database_and_then_its_broker_are_there() {
    starts_before(true).await;
}

#[tokio::test]
async fn it_starts_before_its_broker_and_then_its_database_are_there() {
    starts_before(false).await;
}

async fn starts_before(database_first: bool) {
    let (rabbit, database) = (Rabbit::connect().await, Database::empty().await);
    let (broker_link, database_link) = (Link::to(&rabbit.host_and_port()).await, Link::to(&database.address()).await);
    let http = free_port();
    let setup = Setup { http: Some(http), ..Setup::new(&rabbit, &database) };
    let setup = setup.broker_over(&broker_link).database_over(&database_link);
    broker_link.down();
    database_link.down();
    let mut program = setup.start();

    eventually("it lives", SOON, async || (program.status("/livez").await == Some(200)).then_some(())).await;
    assert_eq!(program.status("/readyz").await, Some(503));
    assert_eq!(program.metric("dlo_source_up{").await, Some(0.0));
    let api = reqwest::get(format!("http://{http}/api/v1/letters")).await.expect("an answer");
    assert!(api.status().is_client_error() || api.status().is_server_error(), "{}", api.status());
    let (first, second) = if database_first { (&database_link, &broker_link) } else { (&broker_link, &database_link) };
    first.up();
    if database_first {
        eventually("it is ready", SOON, async || (program.status("/readyz").await == Some(200)).then_some(())).await;
        eventually("it misses its broker", SOON, async || program.log().contains("cannot receive").then_some(())).await;
    } else {
        eventually("it misses its database", SOON, async || {
            program.log().contains("waiting for the database").then_some(())
        })
        .await;
    }
    second.up();

    program.receiving().await;
    rabbit.publish(&setup.exchange, "order.failed", &numbered(0, 10)).await;
    eventually("the rows", SOON, async || (database.count().await == 10).then_some(())).await;
    program.stop(SOON).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_its_key() {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup::new(&rabbit, &database);
    let address = free_port();
    let _taken = TcpListener::bind(address).expect("free");
    for key in ["http.listen", "metrics.listen"] {
        let taken = match key {
            "http.listen" => Setup { http: Some(address), ..setup.clone() },
            _ => Setup { metrics: Some(address), ..setup.clone() },
        };
        let mut program = taken.start();
        let status = program.ended(AT_ONCE).await;
        assert_eq!(status.code(), Some(1), "{status}");
        let log = program.log();
        assert!(log.contains(key) && log.contains(&address.to_string()), "{log}");
    }
}

#[tokio::test]
async fn a_faulty_configuration_ends_it_with_two() {
    let (rabbit, database) = (Rabbit::connect().await, Database::fresh().await);
    let setup = Setup::new(&rabbit, &database);
    let mut program = setup.start_with("databse: { url: \"postgres://x\" }\n", free_port());
    let status = program.ended(AT_ONCE).await;
    assert_eq!(status.code(), Some(2), "{status}");
    assert!(program.log().contains("did you mean"), "{}", program.log());
}

/// What passes is waited for, what does not ends the process: somebody has to see to it.
#[tokio::test]
async fn a_part_that_dies_ends_the_process_with_failure() {
    let (rabbit, database) = (Rabbit::connect().await, Database::empty().await);
    let setup = Setup::new(&rabbit, &database);
    let name = &database.name;
    database.execute_on_server(&format!("DROP DATABASE {name}")).await;
    let ascii = format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    database.execute_on_server(&ascii).await;
    let mut program = setup.start();
    let status = program.ended(AT_ONCE).await;
    assert_eq!(status.code(), Some(1), "{status}");
    assert!(program.log().contains("SQL_ASCII"), "{}", program.log());
}
