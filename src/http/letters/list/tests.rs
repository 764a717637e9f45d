use serde_json::Value as Json;

use crate::http::testing::{Answer, Api};

fn ids(answer: &Answer) -> Vec<i64> {
    let json = answer.json();
    json["items"].as_array().expect("items").iter().map(|item| item["id"].as_i64().expect("an id")).collect()
}

async fn listed(api: &Api, query: &str) -> Vec<i64> {
    let query =
        query.replace(' ', "%20").replace('"', "%22").replace('>', "%3E").replace('[', "%5B").replace(']', "%5D");
    let answer = api.get(&format!("/api/v1/letters?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {:?}", answer.body);
    ids(&answer)
}

#[tokio::test]
async fn pages_hold_every_letter_once_while_letters_come_in() {
    let api = Api::local().await;
    let insert =
        "INSERT INTO dead_letter_queue (service_name, event_type) SELECT 'shop', 'e' FROM generate_series(1, 25)";
    api.db.sql(insert).await;

    let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let answer = api.get(&format!("/api/v1/letters?limit=7&cursor={cursor}")).await;
        seen.extend(ids(&answer));
        pages += 1;
        api.db.sql(insert).await;
        match answer.json()["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }

    assert_eq!(seen, (1..=25).rev().collect::<Vec<_>>());
    assert_eq!(pages, 4);
}

#[tokio::test]
async fn every_term_selects() {
    let api = Api::local().await;
    let a = api.db.captured(br#"{"total": 120, "items": [{"sku": "A1"}], "paid": false}"#).await;
    let b = api.db.captured(br#"{"total": 5, "items": [], "paid": true}"#).await;
    let c = api.db.captured(b"plain words").await;
    let sql = "INSERT INTO dead_letter_queue (service_name, event_type, payload, error_message, status, message_key, team, tags, headers, message_id, failure_group_id, replay_of, created_at)
               VALUES ('billing', 'invoice.sent', '{}', '100% gone_wrong', 'DEAD', 'k-1', 'pay', '{x}', '{\"n\": [\"one\", \"two\"], \"i\": 7}', 'm-1', 9, 1, '2020-01-01') RETURNING id";
    let d = api.db.sql(sql).await;

    for (query, expected) in [
        ("", vec![d, c, b, a]),
        ("status=DEAD", vec![d]),
        ("status=failed,dead&service=billing", vec![d]),
        ("service=bill*&service=none", vec![d]),
        ("service=", vec![d, c, b, a]),
        ("team=pay", vec![d]),
        ("event_type=*.created", vec![c, b, a]),
        ("source=orders&broker=rabbit&dialect=rabbitmq-native", vec![c, b, a]),
        ("error_class=*OutOfStock", vec![c, b, a]),
        ("consumer=orders", vec![c, b, a]),
        ("origin=shop", vec![c, b, a]),
        ("origin=orders", vec![c, b, a]),
        ("key=k-1", vec![d]),
        ("key=orders.*", vec![c, b, a]),
        ("message_id=m-1", vec![d]),
        ("failure_group=9,10", vec![d]),
        ("replay_of=1", vec![d]),
        ("since=2h", vec![c, b, a]),
        ("until=2021-01-01", vec![d]),
        ("payload=$.total > 100", vec![a]),
        ("payload=$.items[*] ? (@.sku == \"A1\")", vec![a]),
        ("payload=$.paid == true", vec![b]),
        // A comparison that is neither true nor false selects nothing.
        ("payload=$.total > \"x\"", vec![]),
        ("header=tenant=eu*", vec![c, b, a]),
        ("header=n=two", vec![d]),
        ("header=i=7", vec![d]),
        ("header=n", vec![d]),
        ("text=GONE 100%25", vec![d]),
        ("text=100x", vec![]),
        ("text=plain words", vec![c]),
        ("ids=1,3", vec![c, a]),
    ] {
        assert_eq!(listed(&api, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn what_is_not_understood_is_said_and_harms_nobody() {
    let api = Api::local().await;
    for (query, word) in [
        ("status=BROKEN", "no status"),
        ("servise=a", "did you mean service?"),
        ("since=soon", "no time"),
        ("payload=$.a%20==", "no JSONPath"),
        ("payload=$.a%20like_regex%20%22(%22", "regular expression"),
        ("ids=x", "no number"),
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("cursor=abc", "cursor"),
        ("service=a%00b", ""),
    ] {
        let answer = api.get(&format!("/api/v1/letters?{query}")).await;
        let (status, kind, detail) = answer.problem();
        assert_eq!((status, kind.as_str()), (400, "bad-request"), "{query}: {detail}");
        assert!(detail.contains(word), "{query}: {detail}");
    }
    assert_eq!(api.get("/api/v1/letters").await.status, 200);
}

#[tokio::test]
async fn lists_hold_no_wide_columns() {
    let api = Api::local().await;
    api.db.captured(b"{}").await;
    let sql = format!("UPDATE dead_letter_queue SET error_message = '{}'", "x".repeat(2000));
    api.db.sql(&sql).await;

    let json = api.get("/api/v1/letters").await.json();

    let item = json["items"][0].as_object().expect("an item");
    for wide in ["payload", "traceback", "body", "headers", "wire", "notes"] {
        assert!(!item.contains_key(wide), "{wide}");
    }
    assert_eq!(item["error_message"].as_str().map(str::len), Some(500));
    assert_eq!(item["body_bytes"], Json::from(2));
}
