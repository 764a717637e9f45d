//! On a terminal: colours, width, and what must not reach it.

use unicode_width::UnicodeWidthStr;

use super::Cli;

/// Without colours, as the eye counts it.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[tokio::test]
async fn lines_fit_and_statuses_have_colours() {
    let cli = Cli::new().await;
    cli.captured_letter(b"{}").await;
    let insert = "INSERT INTO dead_letter_queue (service_name, event_type, error_message, status) VALUES
        ('日本語のサービス名', 'とても長い種類の名前です', repeat('在庫がありません ', 40), 'DEAD'),
        (repeat('s', 100), repeat('e', 100), repeat('m', 400), 'RESOLVED')";
    cli.database.execute(insert).await;

    for width in ["50", "80", "120", "200"] {
        let ran = cli.terminal("ls", &[("COLUMNS", width)]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("\x1b[1;31mDEAD\x1b[0m") && ran.out.contains("\x1b[32mRESOLVED\x1b[0m"), "{ran:?}");
        for line in plain(&ran.out).lines() {
            assert!(line.trim_end().width() <= width.parse().expect("a number"), "{width}: {line:?}");
        }
    }
    let ran = cli.terminal("ls", &[("COLUMNS", "80"), ("NO_COLOR", "1")]).await;
    assert!(!ran.out.contains('\x1b') && ran.out.contains('…'), "{ran:?}");
}

#[tokio::test]
async fn messages_cannot_steer_the_terminal() {
    let cli = Cli::new().await;
    let id = cli.captured_letter(b"\x1b]0;owned\x07 text").await;
    let evil = r"E'\x1b[2J\x1b]52;c;aGk=\x07 evil\r\x9b'".replace(r"\x9b", "\u{9b}");
    cli.database
        .execute(&format!(
            "UPDATE dead_letter_queue SET error_message = {evil}, traceback = {evil}, service_name = {evil}, wire = NULL,
                 headers = jsonb_build_object({evil}, {evil}), notes = jsonb_build_object('n', {evil})"
        ))
        .await;

    for args in ["ls".to_owned(), format!("show {id}"), format!("show {id} --full")] {
        let ran = cli.terminal(&args, &[("NO_COLOR", "1")]).await;
        assert!(ran.out.contains("evil"), "{ran:?}");
        assert!(!ran.out.contains(['\x1b', '\x07', '\u{9b}']), "{args}: {:?}", ran.out);
    }
    let body = cli.terminal(&format!("body {id}"), &[]).await;
    assert!(body.code == 2 && body.out.contains("--force") && !body.out.contains('\x07'), "{body:?}");
    assert!(cli.terminal(&format!("body {id} --force"), &[]).await.out.contains('\x07'));
}

#[tokio::test]
async fn a_reader_who_has_enough_is_no_failure() {
    let cli = Cli::new().await;
    let insert = "INSERT INTO dead_letter_queue (service_name, event_type, error_message)
                  SELECT 's', 'e', repeat('x', 400) FROM generate_series(1, 3000)";
    cli.database.execute(insert).await;
    for format in ["table", "json", "jsonl", "csv"] {
        let ran = cli.shell(&format!("dlo ls --limit 0 -o {format} | head -1"), &[]).await;
        assert_eq!((ran.code, ran.err.as_str(), ran.out.lines().count()), (0, "", 1), "{format}");
    }
    assert_eq!(cli.shell("dlo completions bash | head -1", &[]).await.err, "");
}
