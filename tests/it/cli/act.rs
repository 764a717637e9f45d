//! `replay`, `discard`, `reopen`, `resolve`, `token`.

use serde_json::json;

use super::Cli;
use crate::support::{SOON, eventually};

#[tokio::test]
async fn a_dry_run_shows_the_publish_and_changes_nothing() {
    let cli = Cli::new().await;
    let id = cli.captured_letter(b"{}").await.to_string();

    let shown = cli.run(&["replay", &id, "--dry-run"]).await;

    assert!(
        shown
            .out
            .starts_with(&format!("letter {id}: would publish 2 bytes to exchange events, routing key order.placed")),
        "{shown:?}"
    );
    assert!(shown.out.contains("header tenant = eu-1"), "{shown:?}");
    let queue = cli.run(&["replay", &id, "--dry-run", "--target", "queue", "-o", "json"]).await.json();
    assert_eq!((&queue["exchange"], &queue["routing_key"]), (&json!(""), &json!("shop.in")));
    assert_eq!(cli.database.scalar::<i64>("SELECT count(*) FROM dlo_replays").await, 0);
}

#[tokio::test]
async fn a_replay_names_its_target_and_who_asked() {
    let cli = Cli::new().await;
    for (args, target) in [
        (&[][..], json!("original")),
        (&["--target", "queue"], json!("queue")),
        (&["--to-queue", "q"], json!({"queue": "q"})),
        (&["--to-exchange", "x", "--to-routing-key", "k"], json!({"exchange": "x", "routing_key": "k"})),
        (&["--target", r#"{"queue": "z"}"#], json!({"queue": "z"})),
    ] {
        let id = cli.captured_letter(b"{}").await.to_string();
        let replay = cli.run(&[&["replay", &id, "-o", "json"], args].concat()).await.json();
        assert_eq!((&replay["target"], &replay["state"]), (&target, &json!("PENDING")), "{args:?}");
        let by = replay["requested_by"].as_str().expect("a name");
        assert!(by.starts_with("dlo/") && by.len() > 4, "database user and system user: {by}");
        let audited: String = cli.database.scalar("SELECT actor FROM dlo_audit ORDER BY id DESC LIMIT 1").await;
        assert_eq!(audited, by);
    }
}

#[tokio::test]
async fn more_than_one_letter_wants_a_yes() {
    let cli = Cli::new().await;
    let (a, b) = (cli.captured_letter(b"{}").await.to_string(), cli.captured_letter(b"{}").await.to_string());

    assert!(cli.run(&["discard", &a, &b]).await.fault(2).contains("2 letters; add --yes"));
    assert_eq!(cli.database.statuses().await["FAILED"], 2);
    let would = cli.run(&["discard", &a, &b, "--dry-run"]).await;
    assert_eq!((would.code, would.out.lines().count()), (0, 2), "{would:?}");
    let done = cli.run(&["discard", &a, &b, "--yes", "--reason", "old"]).await;
    assert_eq!((done.code, done.out), (0, format!("letter {a}: DISCARDED\nletter {b}: DISCARDED\n")));
    let reason: String = cli.database.scalar("SELECT details ->> 'reason' FROM dlo_audit LIMIT 1").await;
    assert_eq!(reason, "old");
}

#[tokio::test]
async fn of_several_letters_the_others_go_on_and_the_first_failure_is_the_code() {
    let cli = Cli::new().await;
    let id = cli.captured_letter(b"{}").await.to_string();

    let ran = cli.run(&["discard", "98", &id, "--yes"]).await;

    assert_eq!(ran.fault(3), "there is no letter 98");
    assert_eq!(ran.out, format!("letter {id}: DISCARDED\n"));
    assert!(cli.run(&["replay", &id]).await.fault(1).contains("DISCARDED: reopen it first"));
}

#[tokio::test]
async fn waiting_tells_what_became_of_it() {
    let cli = Cli::new().await;
    for (verdict, code, word) in [
        ("ROUTED", 0, "did not come back"),
        ("DIED_AGAIN", 1, "died again"),
        ("UNROUTABLE", 1, "no such exchange"),
        ("REFUSED", 1, "refused"),
    ] {
        let id = cli.captured_letter(b"{}").await.to_string();
        let args = ["replay", &id, "--wait", "--watch", "300ms"];
        let loop_does_it = async {
            eventually("asked for", SOON, async || {
                let asked: i64 = cli.database.scalar("SELECT count(*) FROM dlo_replays WHERE state = 'PENDING'").await;
                (asked == 1).then_some(())
            })
            .await;
            let sql = format!(
                "UPDATE dlo_replays SET state = 'DONE', verdict = '{verdict}', error = 'no such exchange' WHERE state = 'PENDING'"
            );
            cli.database.execute(&sql).await;
        };
        let (ran, ()) = tokio::join!(cli.run(&args), loop_does_it);
        assert_eq!(ran.code, code, "{verdict}: {ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains(word), "{verdict}: {ran:?}");
    }
}

#[tokio::test]
async fn waiting_has_an_end() {
    let cli = Cli::new().await;
    let id = cli.captured_letter(b"{}").await.to_string();
    let ran = cli.run(&["replay", &id, "--wait", "--timeout", "500ms"]).await;
    assert!(ran.fault(1).contains("still PENDING; does dlo run?"));
    assert!(cli.run(&["replay", &id]).await.fault(1).contains("under way"));
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let cli = Cli::new().await;

    let made = cli.run(&["token", "create", "--role", "viewer", "--name", "anna"]).await;

    assert!(made.code == 0 && made.out.starts_with("dlo_") && made.out.lines().count() == 1, "{made:?}");
    let list = cli.run(&["token", "ls"]).await;
    assert!(
        list.out.contains("anna") && list.out.contains("viewer") && !list.out.contains(made.out.trim()),
        "{list:?}"
    );
    assert_eq!(cli.run(&["token", "create", "--role", "king", "--name", "b"]).await.code, 2);
    assert!(cli.run(&["token", "create", "--role", "admin", "--name", "anna"]).await.fault(1).contains("already"));
    assert_eq!(cli.run(&["token", "revoke", "anna"]).await.code, 0);
    assert!(cli.run(&["token", "revoke", "bob"]).await.fault(3).contains("no token \"bob\""));
}
