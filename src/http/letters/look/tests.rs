use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::http::testing::Api;

#[tokio::test]
async fn a_letter_is_told_with_its_bytes_and_properties() {
    let api = Api::local().await;
    let body = b"{\"total\": 12345678901234567890.125}";
    let id = api.db.captured(body).await;

    let answer = api.get(&format!("/api/v1/letters/{id}")).await;

    let letter = answer.json();
    assert_eq!(STANDARD.decode(letter["body"].as_str().expect("base64")).expect("decodes"), body);
    assert_eq!(letter["properties"], json!({"content_type": "text/html"}));
    assert_eq!(letter["headers"], json!({"tenant": "eu-1"}));
    assert_eq!(letter["traceback"], "at a.B");
    assert!(String::from_utf8_lossy(&answer.body).contains("12345678901234567890.125"), "numbers stay exact");
}

#[tokio::test]
async fn bodies_are_exact_and_never_sniffed() {
    let api = Api::local().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let id = api.db.captured(&bytes).await;

    let answer = api.get(&format!("/api/v1/letters/{id}/body")).await;

    assert_eq!(answer.body, bytes);
    assert_eq!(answer.headers["content-type"], "application/octet-stream");
    assert_eq!(answer.headers["content-disposition"], format!("attachment; filename=\"letter-{id}.bin\""));
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers["dlo-content-type"], "text/html");
}

#[tokio::test]
async fn a_large_body_is_left_out_of_the_json_and_whole_on_its_own() {
    let api = Api::local().await;
    let body = vec![b'x'; 5 * 1024 * 1024];
    let id = api.db.captured(&body).await;

    let letter = api.get(&format!("/api/v1/letters/{id}")).await.json();

    assert_eq!((&letter["body"], &letter["omitted"]), (&json!(null), &json!(["body", "payload"])));
    assert_eq!(api.get(&format!("/api/v1/letters/{id}/body")).await.body.len(), body.len());
}

#[tokio::test]
async fn a_letter_written_by_a_service_gives_its_payload_and_a_tombstone_nothing() {
    let api = Api::local().await;
    let insert = "INSERT INTO dead_letter_queue (service_name, event_type, payload, error_message, traceback, status)
                  VALUES ('crm', 'merged', '{\"big\": 1e400}', 'boom', 'at x', 'FAILED') RETURNING id";
    let id = api.db.sql(insert).await;
    let insert = "INSERT INTO dead_letter_queue (service_name, event_type, payload_state) VALUES ('s', 'e', 'tombstone') RETURNING id";
    let tombstone = api.db.sql(insert).await;

    let body = api.get(&format!("/api/v1/letters/{id}/body")).await.body;
    assert!(body.starts_with(b"{\"big\": 1000000"), "{body:?}");
    assert_eq!(api.get(&format!("/api/v1/letters/{id}")).await.status, 200, "a number beyond any type of ours");
    assert_eq!(api.get(&format!("/api/v1/letters/{tombstone}/body")).await.problem().0, 404);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_is_no_id_400() {
    let api = Api::local().await;
    for path in ["letters/99", "letters/99/body", "letters/99/lives", "replays/99", "nothing"] {
        assert_eq!(api.get(&format!("/api/v1/{path}")).await.problem().0, 404, "{path}");
    }
    assert_eq!(api.get("/api/v1/letters/abc").await.problem().0, 400);
    assert_eq!(api.get("/api/v1/letters/99999999999999999999").await.problem().0, 400);
    assert_eq!(api.delete("/api/v1/letters/1").await.problem().0, 405);
}

#[tokio::test]
async fn all_lives_are_told_whichever_is_asked() {
    let api = Api::local().await;
    let first = api.db.captured(b"{}").await;
    let other = api.db.captured(b"{}").await;
    let family = |link: &str, to: i64, status: &str| {
        format!(
            "INSERT INTO dead_letter_queue (service_name, event_type, status, {link}) VALUES ('shop', 'e', '{status}', {to}) RETURNING id"
        )
    };
    let back = api.db.sql(&family("replay_of", first, "REPEATED")).await;
    let copy = api.db.sql(&family("duplicate_of", first, "DUPLICATE")).await;
    let copy_of_return = api.db.sql(&family("duplicate_of", back, "DUPLICATE")).await;
    api.post(&format!("/api/v1/letters/{first}/replay"), &json!({})).await;

    for id in [first, back, copy, copy_of_return] {
        let lives = api.get(&format!("/api/v1/letters/{id}/lives")).await.json();
        let ids =
            |name: &str| lives[name].as_array().expect("a list").iter().map(|l| l["id"].as_i64()).collect::<Vec<_>>();
        assert_eq!(lives["first"]["id"], first, "asked for {id}");
        assert_eq!(ids("returns"), [Some(back)]);
        assert_eq!(ids("duplicates"), [Some(copy), Some(copy_of_return)]);
        assert_eq!(lives["replays"][0]["letter_id"], first);
    }
    let alone = api.get(&format!("/api/v1/letters/{other}/lives")).await.json();
    assert_eq!((&alone["first"]["id"], &alone["returns"], &alone["replays"]), (&json!(other), &json!([]), &json!([])));
}
