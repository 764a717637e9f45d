//! `sources`, `sources seek`.

use dead_letter_office::store::sources::{Report, Sighting};
use serde_json::json;

use super::Cli;

/// A Kafka source whose group is named like it: topic `t`, partitions 0 and 1 at 100, messages from 10 to 110.
fn kafka(name: &str) -> Report {
    let sighting = |partition| Sighting {
        topic: "t".to_owned(),
        partition,
        first: Some(10),
        end: Some(110),
        stopped_at: None,
        reset_to: None,
    };
    Report {
        name: name.to_owned(),
        broker: "main".to_owned(),
        broker_kind: "kafka",
        cluster_id: Some("c".to_owned()),
        group_id: Some(name.to_owned()),
        topics: Some(vec!["t".to_owned(), "^u.*".to_owned()]),
        queue: None,
        waiting: None,
        partitions: vec![sighting(0), sighting(1)],
        up: true,
        trouble: None,
        last_letter_seconds: None,
    }
}

fn rabbit(name: &str) -> Report {
    Report {
        name: name.to_owned(),
        broker: "rabbit".to_owned(),
        broker_kind: "rabbitmq",
        cluster_id: None,
        group_id: None,
        topics: None,
        queue: Some("dlo.orders".to_owned()),
        waiting: Some(3),
        partitions: Vec::new(),
        up: false,
        trouble: Some("connection refused".to_owned()),
        last_letter_seconds: None,
    }
}

async fn cli(reports: &[Report]) -> Cli {
    let cli = Cli::new().await;
    cli.database.store().report_sources(reports).await.expect("reported");
    let insert = "INSERT INTO dlo_positions (cluster_id, group_id, topic, partition, topic_id, position, since)
                  SELECT 'c', group_id, 't', p, gen_random_uuid(), 100, 50 FROM generate_series(0, 1) p, dlo_sources
                  WHERE group_id IS NOT NULL";
    cli.database.execute(insert).await;
    cli
}

/// `dlo sources seek --topic … --partition … --to …` and more.
fn seek<'a>(topic: &'a str, partition: &'a str, to: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sources", "seek", "--topic", topic, "--partition", partition, "--to", to], more].concat()
}

#[tokio::test]
async fn sources_are_shown_with_their_partitions_and_in_every_format() {
    let mut payments = kafka("payments");
    payments.partitions[1].reset_to = Some(7);
    let cli = cli(&[payments, rabbit("orders")]).await;

    let table = cli.run(&["sources"]).await;
    let words: Vec<Vec<&str>> = table.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1], ["orders", "rabbit", "down", "dlo.orders", "3", "–", "1", "connection", "refused"]);
    assert_eq!(words[2][..9], ["payments", "main", "up", "t", "^u.*", "(group", "payments)", "20", "–"]);
    assert_eq!(words[5], ["payments", "t", "0", "100", "10", "110", "10", "0"]);
    assert!(table.out.contains("the group was set to 7, not followed"), "{}", table.out);

    let json = cli.run(&["sources", "-o", "json"]).await.json();
    assert_eq!(json["items"][1]["partitions"][0]["position"], json!(100));
    let jsonl = cli.run(&["sources", "-o", "jsonl"]).await;
    assert_eq!(jsonl.out.lines().count(), 2);
    let csv = cli.run(&["sources", "-o", "csv"]).await;
    assert_eq!(csv.out.lines().count(), 4, "a head, a queue, two partitions: {}", csv.out);
    assert!(csv.out.starts_with("source,broker,broker_kind,state,"), "{}", csv.out);
}

#[tokio::test]
async fn a_seek_says_what_it_means_and_wants_a_yes() {
    let cli = cli(&[kafka("payments")]).await;
    let position = async || cli.database.scalar::<i64>("SELECT position FROM dlo_positions WHERE partition = 0").await;

    let asked = cli.run(&seek("t", "0", "60", &[])).await;
    let fault = asked.fault(2);
    assert!(fault.contains("from 100 to 60: up to 40 messages are captured a second time; add --yes"), "{fault}");
    let forward = cli.run(&seek("t", "0", "110", &[])).await;
    assert!(forward.fault(2).contains("up to 10 messages are never captured"), "{forward:?}");
    let dry = cli.run(&seek("t", "0", "60", &["--dry-run"])).await;
    assert_eq!(
        (dry.code, dry.out.as_str()),
        (0, "would go t/0 from 100 to 60: up to 40 messages are captured a second time\n")
    );
    assert_eq!(position().await, 100);

    let done = cli.run(&seek("t", "0", "60", &["--yes", "-o", "json"])).await.json();
    assert_eq!(
        (&done["source"], &done["captured_again"], &done["changed"]),
        (&json!("payments"), &json!(40), &json!(true))
    );
    assert_eq!(position().await, 60);
    let again = cli.run(&seek("t", "0", "60", &[])).await;
    assert_eq!((again.code, again.out.as_str()), (0, "t/0 is at 60 already\n"));
    let trail: i64 = cli.database.scalar("SELECT count(*) FROM dlo_audit WHERE action = 'sources seek'").await;
    assert_eq!(trail, 1);
}

#[tokio::test]
async fn what_cannot_be_sought_has_its_exit_code_and_the_way_out() {
    let cli = cli(&[kafka("payments"), kafka("ledger"), rabbit("orders")]).await;

    let two = cli.run(&seek("t", "0", "60", &["--yes"])).await;
    assert!(two.fault(2).contains("t/0 is read by ledger and payments; say which with --source"), "{two:?}");
    assert_eq!(cli.run(&seek("t", "0", "60", &["--yes", "--source", "ledger"])).await.code, 0);
    let moved: String =
        cli.database.scalar("SELECT string_agg(group_id, ' ') FROM dlo_positions WHERE position = 60").await;
    assert_eq!(moved, "ledger");
    assert!(cli.run(&seek("t", "9", "60", &[])).await.fault(3).contains("there are: t/0, t/1"));
    assert!(cli.run(&seek("x", "0", "60", &[])).await.fault(3).ends_with("there are: t"));
    assert!(
        cli.run(&seek("t", "0", "60", &["--source", "nobody"])).await.fault(3).contains("there are: ledger, orders")
    );
    assert!(cli.run(&seek("t", "0", "60", &["--source", "orders"])).await.fault(1).contains("only Kafka"));
    assert!(cli.run(&seek("t", "0", "200", &["--source", "ledger"])).await.fault(1).contains("was at 110"));
    for wrong in ["earliest", "-1", "1.5"] {
        let ran = cli.run(&seek("t", "0", wrong, &[])).await;
        assert!(ran.code == 2 && ran.err.contains("an offset is a number from 0"), "{ran:?}");
    }
}
