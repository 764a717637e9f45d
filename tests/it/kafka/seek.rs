//! A position that a person sets, with the command they have for it.

use std::process::Stdio;

use serde_json::Value as Json;
use tokio::process::Command;

use super::{NOTICED, Post, numbered};
use crate::support::{SOON, eventually};

impl Post {
    /// `dlo …` beside the running program; standard output of what worked.
    async fn dlo(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlo"));
        command.args(args).env("DLO_DATABASE_URL", self.setup.database.as_str()).env_remove("DLO_SERVER");
        let ran = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("runs");
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    }

    async fn seek(&self, to: &str) -> Json {
        let place = ["sources", "seek", "--topic", &self.topic, "--partition", "0", "--to", to];
        serde_json::from_str(&self.dlo(&[&place[..], &["--yes", "-o", "json"]].concat()).await).expect("JSON")
    }

    /// Source `orders`, once `is` holds of it.
    async fn source(&self, what: &str, is: impl Fn(&Json) -> bool) {
        eventually(what, NOTICED, async || {
            let list: Json = serde_json::from_str(&self.dlo(&["sources", "-o", "json"]).await).expect("JSON");
            is(&list["items"][0]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn sought_back_the_messages_are_captured_a_second_time() {
    let post = Post::new(1).await;
    let records = numbered(0, 100);
    post.send(&records).await;
    let program = post.start();
    post.stored(100, SOON).await;
    post.source("all of it is seen", |source| {
        source["state"] == "up" && source["partitions"][0]["position"] == 100 && source["partitions"][0]["end"] == 100
    })
    .await;

    let seek = post.seek("60").await;
    assert_eq!((&seek["from"], &seek["captured_again"]), (&Json::from(100), &Json::from(40)));
    post.stored(140, NOTICED).await;

    let twice: i64 = post
        .database
        .scalar(
            "SELECT count(*) FROM (SELECT FROM dead_letter_queue GROUP BY captured_offset HAVING count(*) = 2) twice",
        )
        .await;
    assert_eq!(twice, 40);
    post.positions_are_at_the_rows().await;
    assert_eq!(program.metric("dlo_source_partitions_stopped").await, Some(0.0));
}

#[tokio::test]
async fn sought_forward_while_nobody_runs_the_messages_are_never_captured() {
    let post = Post::new(1).await;
    post.send(&numbered(0, 10)).await;
    let mut program = post.start();
    post.stored(10, SOON).await;
    post.source("it is known", |source| source["partitions"][0]["position"] == 10).await;
    program.stop(SOON).await;
    let records = numbered(10, 50);
    post.send(&records).await;
    post.source("it is away", |source| source["state"] == "away").await;

    let seek = post.seek("40").await;
    assert_eq!((&seek["skipped"], &seek["end"]), (&Json::from(30), &Json::Null));
    let _program = post.start();
    post.stored(30, SOON).await;

    let first: i64 =
        post.database.scalar("SELECT min(captured_offset) FROM dead_letter_queue WHERE captured_offset >= 10").await;
    assert_eq!(first, 40);
    post.positions_are_at_the_rows().await;
}

#[tokio::test]
async fn a_partition_that_stopped_before_its_position_goes_on_from_where_it_is_sent() {
    let post = Post::new(1).await;
    post.send(&numbered(0, 100)).await;
    let mut program = post.start();
    post.stored(100, SOON).await;
    post.source("it is known", |source| source["partitions"][0]["position"] == 100).await;
    program.stop(SOON).await;
    // As after an unclean election: the broker has less than was read.
    post.database.execute("UPDATE dlo_positions SET position = 5000").await;
    let program = post.start();
    post.source("it is stopped", |source| source["state"] == "partly" && source["partitions"][0]["stopped"] == true)
        .await;
    assert!(post.dlo(&["sources"]).await.contains("stopped: its end is before our position"));

    post.send(&numbered(100, 10)).await;
    post.seek("100").await;
    post.stored(110, NOTICED).await;

    program.wait_for_metric("dlo_source_partitions_stopped", 0.0, SOON).await;
    post.source("it goes on", |source| source["state"] == "up" && source["partitions"][0]["position"] == 110).await;
    post.positions_are_at_the_rows().await;
}
