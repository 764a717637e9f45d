//! Three brokers, of which one is killed, and then the next. Only where they are up: `dev/services up kafka3`.

use std::{process::Command, time::Duration};

use super::{Post, numbered};
use crate::support::{SOON, database::Database, kafka::Kafka, services};

fn services(arguments: [&str; 2]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/dev/services");
    let done = Command::new(script).args(arguments).output().expect("dev/services is there");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_of_three_are_killed_one_after_the_other() {
    let Some(brokers) = services::kafka3() else { return eprintln!("skipped: no three nodes of Kafka") };
    let mut kafka = Kafka::at(&brokers);
    kafka.replication = 3;
    let post = Post::at(kafka, Database::fresh().await, 6, &[("min.insync.replicas", "2")]).await;
    let records = numbered(0, 12_000);
    let mut program = post.start();
    program.receiving().await;

    let sending = async {
        for part in records.chunks(100) {
            post.send(part).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let killing = tokio::task::spawn_blocking(|| {
        for node in ["kafka3-2", "kafka3-1", "kafka3-3"] {
            services(["kill", node]);
            services(["up", node]);
        }
    });
    let ((), killed) = tokio::join!(sending, killing);
    killed.expect("killed and back");

    post.stored(records.len(), SOON * 4).await;
    program.stop(SOON).await;
    post.is_exactly(&records).await;
}
