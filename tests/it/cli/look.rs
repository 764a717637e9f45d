//! `ls`, `show`, `body`, and what needs no letters.

use serde_json::{Value as Json, json};

use super::Cli;

fn ids(page: &Json) -> Vec<i64> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn pages_follow_each_other_without_repeats_or_gaps_while_rows_are_inserted() {
    let cli = Cli::new().await;
    let mut expected = Vec::new();
    for _ in 0..11 {
        expected.insert(0, cli.service_letter("crm").await);
    }

    let (mut seen, mut args) = (Vec::new(), vec!["ls".to_owned(), "-ojson".into(), "--limit=3".into()]);
    loop {
        let page = cli.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await.json();
        seen.extend(ids(&page));
        cli.service_letter("crm").await;
        let Some(next) = page["next"].as_str() else { break };
        args.truncate(3);
        args.push(format!("--cursor={next}"));
    }

    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_limit_beyond_a_page_and_none_at_all_are_met() {
    let cli = Cli::new().await;
    let insert =
        "INSERT INTO dead_letter_queue (service_name, event_type) SELECT 's', 'e' FROM generate_series(1, 2500)";
    cli.database.execute(insert).await;

    assert_eq!(
        cli.run(&["ls", "-o", "json", "--limit", "2100"]).await.json()["items"].as_array().map(Vec::len),
        Some(2100)
    );
    let all = cli.run(&["ls", "-o", "jsonl", "--limit", "0"]).await;
    let mut lines: Vec<i64> = all
        .out
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).expect("JSON")["id"].as_i64().expect("id"))
        .collect();
    lines.dedup();
    assert_eq!(lines.len(), 2500);
    let csv = cli.run(&["ls", "-o", "csv", "--limit", "5"]).await;
    assert_eq!(csv.out.lines().count(), 6);
    assert!(csv.out.starts_with("id,created_at,service_name,event_type,status,"), "{}", csv.out);
}

#[tokio::test]
async fn the_table_says_what_matters_and_a_pipe_gets_all_of_it() {
    let cli = Cli::new().await;
    let long = "x".repeat(300);
    let id = cli.service_letter("crm").await;
    cli.database.execute(&format!("UPDATE dead_letter_queue SET error_message = '{long}'")).await;
    cli.captured_letter(b"{}").await;

    let table = cli.run_with(&["ls"], &[("COLUMNS", "60")]).await;

    assert_eq!((table.code, table.err.as_str()), (0, ""));
    assert!(table.out.contains(&long) && !table.out.contains('\x1b') && !table.out.contains('…'), "{}", table.out);
    let captured = table.out.lines().nth(1).expect("a row");
    for word in ["FAILED", "shop", "order.placed", "OutOfStock: SKU-1 has 0 left", "shop.in"] {
        assert!(captured.contains(word), "{word}: {captured}");
    }
    assert_eq!(ids(&cli.run(&["ls", "--service", "c*", "-o", "json"]).await.json()), [id]);
    assert_eq!(ids(&cli.run(&["ls", &id.to_string(), "-o", "json"]).await.json()), [id]);
    assert_eq!(cli.run(&["ls", "--service", "none"]).await.out, "");
}

#[tokio::test]
async fn a_letter_is_shown_in_the_order_people_ask() {
    let cli = Cli::new().await;
    let id = cli.captured_letter(b"{\"order\": 7, \"total\": 12345678901234567890.25}").await.to_string();

    let page = cli.run(&["show", &id]).await;

    assert_eq!(page.code, 0, "{page:?}");
    let mut rest = page.out.as_str();
    for word in [
        "What failed",
        "shop",
        "Why",
        "com.acme.OutOfStock",
        "SKU-1 has 0 left",
        "3 by the consumer",
        "Where from",
        "events",
        "Message",
        "application/json",
        "Headers (1)",
        "tenant",
        "eu-1",
        "Payload",
        "12345678901234567890.25",
        "Stack trace",
        "at a.B",
    ] {
        let at = rest.find(word).unwrap_or_else(|| panic!("{word} in its place:\n{}", page.out));
        rest = &rest[at..];
    }
    let letter = cli.run(&["show", &id, "-o", "json"]).await;
    assert!(letter.out.contains("12345678901234567890.25"), "numbers stay exact");
    assert_eq!(letter.json()["properties"], json!({"content_type": "application/json"}));
}

#[tokio::test]
async fn the_time_of_a_message_is_told_in_its_brokers_unit() {
    use dead_letter_office::message::{AmqpProperties, Headers, KafkaProperties, RawMessage, RecordTime, wire};
    let cli = Cli::new().await;
    let amqp = AmqpProperties { timestamp: Some(1_796_052_312), ..AmqpProperties::default() };
    let kafka =
        KafkaProperties { timestamp: Some(RecordTime::Created(1_796_052_312_029)), ..KafkaProperties::default() };
    for (kind, message) in [
        ("rabbitmq", RawMessage::amqp(amqp, Headers::default(), "")),
        ("kafka", RawMessage::kafka(kafka, None, Headers::default(), None)),
    ] {
        let id = cli.captured_letter(b"{}").await;
        let mut stored = Vec::new();
        wire::encode(&mut stored, &message, None);
        let update = sqlx::query("UPDATE dead_letter_queue SET broker_kind = $2, wire = $3 WHERE id = $1");
        update.bind(id).bind(kind).bind(stored).execute(&cli.database.pool).await.expect("updated");

        let page = cli.run(&["show", &id.to_string()]).await;

        assert!(page.out.contains("2026-11-30 15:25:12 UTC"), "{kind}: {page:?}");
    }
}

#[tokio::test]
async fn bodies_are_exact() {
    let cli = Cli::new().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let id = cli.captured_letter(&bytes).await.to_string();
    let service = cli.service_letter("crm").await.to_string();

    assert!(cli.run(&["body", &id]).await.bytes == bytes);
    assert_eq!(cli.run(&["body", &service]).await.out, "{\"id\": 7}");
}

#[tokio::test]
async fn what_is_not_there_is_3_and_what_is_not_understood_2() {
    let cli = Cli::new().await;
    for command in ["show", "body", "discard", "reopen", "resolve", "replay"] {
        assert_eq!(cli.run(&[command, "99"]).await.fault(3), "there is no letter 99", "{command}");
    }
    assert!(cli.run(&["ls", "--since", "soon"]).await.fault(2).contains("write 2h or 7d"));
    assert!(cli.run(&["ls", "--status", "BROKEN"]).await.fault(2).contains("FAILED PENDING_RETRY"));
    assert!(cli.run(&["ls", "--payload", "$.a =="]).await.fault(2).contains("JSONPath"));
    assert!(cli.run(&["ls", "--cursor", "x"]).await.fault(2).contains("cursor"));
    assert!(cli.run(&["replay", "1", "--target", "moon"]).await.fault(2).contains("original"));
    assert_eq!(cli.run(&["ls", "--nonsense"]).await.code, 2);
    assert_eq!(cli.run(&["show", "abc"]).await.code, 2);
    assert_eq!(cli.run(&[]).await.code, 2);
    assert_eq!(cli.run(&["--help"]).await.code, 0);
}

#[tokio::test]
async fn what_needs_no_database_works_without_one() {
    let cli = Cli::new().await;
    let nowhere = [("DLO_DATABASE_URL", "")];
    let metrics = cli.run_with(&["metrics", "-o", "json"], &nowhere).await.json();
    assert!(metrics.as_array().expect("a list").iter().any(|metric| metric["name"] == "dlo_messages_stored_total"));
    assert!(cli.run_with(&["metrics"], &nowhere).await.out.contains("dlo_source_up"));
    assert!(cli.run_with(&["openapi"], &nowhere).await.json()["paths"]["/api/v1/letters"].is_object());
    assert!(cli.run_with(&["schema"], &nowhere).await.json()["properties"]["database"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        assert!(cli.run_with(&["completions", shell], &nowhere).await.out.contains("replay"), "{shell}");
    }
}
