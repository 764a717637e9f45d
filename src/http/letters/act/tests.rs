use serde_json::{Value as Json, json};

use crate::{
    http::testing::Api,
    message::{KafkaProperties, RawMessage, RecordTime, Value},
};

#[tokio::test]
async fn a_replay_is_a_row_and_an_audit_entry_and_happens_once() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    let path = format!("/api/v1/letters/{id}/replay");

    let answer = api.post(&path, &json!({"target": "queue"})).await;

    let replay = answer.json();
    assert_eq!(answer.status, 202);
    assert_eq!(
        (&replay["state"], &replay["verdict"], &replay["target"]),
        (&json!("PENDING"), &json!(null), &json!("queue"))
    );
    assert_eq!((&replay["requested_by"], &replay["source"]), (&json!("dlo/tester"), &json!("orders")));
    let location = answer.headers["location"].to_str().expect("a place");
    assert_eq!(api.get(location).await.json(), replay);
    assert_eq!(api.audit().await, [format!("dlo/tester replay {{{id}}}")]);

    let again = api.post(&path, &json!({})).await;
    assert_eq!((again.problem().0, again.problem().1.as_str()), (409, "under-way"));
    assert_eq!(again.json()["replay"], replay["id"]);
    assert_eq!(api.audit().await.len(), 1, "what was refused is not in the trail");
}

#[tokio::test]
async fn what_may_not_be_replayed_says_why() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    for (status, word) in [("DISCARDED", "reopen"), ("DUPLICATE", "second copy"), ("REPEATED", "return")] {
        api.db
            .sql(&format!(
                "ALTER TABLE dead_letter_queue DISABLE TRIGGER USER; UPDATE dead_letter_queue SET status = '{status}'"
            ))
            .await;
        for dry_run in [true, false] {
            let answer = api.post(&format!("/api/v1/letters/{id}/replay"), &json!({"dry_run": dry_run})).await;
            let (code, kind, detail) = answer.problem();
            assert_eq!((code, kind.as_str()), (409, "status"), "{status}");
            assert!(detail.contains(status) && detail.contains(word), "{detail}");
            assert_eq!(answer.json()["letter_status"], status);
        }
    }
}

#[tokio::test]
async fn where_there_is_no_way_nothing_is_promised() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    api.db.sql("UPDATE dead_letter_queue SET origin_queue = NULL, origin_exchange = NULL").await;
    let service =
        api.db.sql("INSERT INTO dead_letter_queue (service_name, event_type) VALUES ('crm', 'e') RETURNING id").await;

    let replay = async |id: i64, body: Json| api.post(&format!("/api/v1/letters/{id}/replay"), &body).await.problem();
    let (status, _, detail) = replay(id, json!({"target": "queue"})).await;
    assert_eq!((status, detail.as_str()), (422, "the queue that failed is not known for this letter; name a target"));
    assert_eq!(replay(id, json!({})).await.0, 422);
    assert_eq!(replay(service, json!({})).await.0, 422);
    assert_eq!(replay(id, json!({"target": "moon"})).await.0, 422);
    assert_eq!(replay(id, json!({"target": {"topic": "t"}})).await.0, 422);
    assert_eq!(replay(id, json!({"target": {"queue": "q"}, "key": "k"})).await.0, 422);
    assert_eq!(replay(id, json!({"targt": "queue"})).await.0, 400);
    assert_eq!(replay(999, json!({})).await.0, 404);
    assert_eq!(api.post(&format!("/api/v1/letters/{id}/replay"), &json!({"target": {"queue": "q"}})).await.status, 202);
}

#[tokio::test]
async fn a_dry_run_shows_the_publish_and_changes_nothing() {
    let api = Api::local().await;
    let id = api.db.captured(b"abc").await;

    let answer = api.post(&format!("/api/v1/letters/{id}/replay"), &json!({"dry_run": true})).await;

    assert_eq!(answer.status, 200);
    let publish = answer.json();
    assert_eq!((&publish["exchange"], &publish["routing_key"]), (&json!("shop"), &json!("orders.created")));
    assert_eq!(publish["headers"]["dlo-letter-id"], id.to_string());
    assert_eq!((&publish["headers"]["tenant"], &publish["body_bytes"]), (&json!("eu-1"), &json!(3)));
    assert_eq!(api.db.sql("SELECT count(*) FROM dlo_replays").await, 0);
    assert!(api.audit().await.is_empty());
}

#[tokio::test]
async fn people_decide_and_the_trail_knows() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    let act =
        async |action: &str| api.post(&format!("/api/v1/letters/{id}/{action}"), &json!({"reason": "test"})).await;

    let discarded = act("discard").await;
    assert_eq!((discarded.status.as_u16(), &discarded.json()["status"]), (200, &json!("DISCARDED")));
    assert_eq!(act("discard").await.status, 200, "twice is once");
    assert_eq!(act("resolve").await.problem().1, "status", "a discarded letter has to be reopened first");
    assert_eq!(act("reopen").await.json()["status"], "FAILED");
    let resolved = act("resolve").await.json();
    assert_eq!((&resolved["status"], &resolved["resolved_by"]), (&json!("RESOLVED"), &json!("operator")));
    let reopened = act("reopen").await.json();
    assert_eq!((&reopened["status"], &reopened["resolved_by"]), (&json!("FAILED"), &json!(null)));

    let trail: Vec<String> =
        ["discard", "reopen", "resolve", "reopen"].map(|a| format!("dlo/tester {a} {{{id}}}")).into();
    assert_eq!(api.audit().await, trail);
}

#[tokio::test]
async fn nothing_is_decided_about_a_letter_on_its_way() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    api.post(&format!("/api/v1/letters/{id}/replay"), &json!({})).await;

    for action in ["discard", "resolve"] {
        assert_eq!(api.post(&format!("/api/v1/letters/{id}/{action}"), &json!({})).await.problem().1, "under-way");
    }
}

#[tokio::test]
async fn of_many_who_ask_at_once_one_gets_the_replay() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    let (path, body) = (format!("/api/v1/letters/{id}/replay"), json!({}));

    let answers = futures_util::future::join_all((0..6).map(|_| api.post(&path, &body))).await;

    let mut codes: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [202, 409, 409, 409, 409, 409]);
}

/// Serde takes a list for an object's fields in their order: `["queue"]` would be a target.
#[tokio::test]
async fn a_list_is_no_request() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    for body in [json!([]), json!(["queue"]), json!(null)] {
        for action in ["replay", "discard"] {
            let answer = api.post(&format!("/api/v1/letters/{id}/{action}"), &body).await;
            let (code, kind, detail) = answer.problem();
            assert_eq!((code, kind.as_str()), (400, "bad-request"), "{action} {body}");
            assert!(detail.contains("object"), "{detail}");
        }
    }
    assert!(api.audit().await.is_empty());
}

/// Failed at `orders`, partition 3, as Spring Kafka says it.
fn record(key: Option<&'static str>, value: Option<&'static str>) -> RawMessage {
    let headers = [
        ("kafka_dlt-original-topic", &b"orders"[..]),
        ("kafka_dlt-original-partition", &[0, 0, 0, 3]),
        ("tenant", b"eu-1"),
    ];
    let headers = headers.map(|(name, value)| (name.into(), Value::Bytes(value.to_vec()))).into_iter().collect();
    let properties = KafkaProperties { timestamp: Some(RecordTime::Created(1_772_610_000_000)), leader_epoch: Some(2) };
    RawMessage::kafka(properties, key.map(Into::into), headers, value.map(Into::into))
}

#[tokio::test]
async fn a_stored_record_goes_to_its_topic_and_partition() {
    let api = Api::local().await;
    let id = api.db.captured_record(record(Some("A-1042"), Some("{}")), "orders-dlt").await;
    let path = format!("/api/v1/letters/{id}/replay");

    let letter = api.get(&format!("/api/v1/letters/{id}")).await.json();
    assert_eq!(letter["headers"]["kafka_dlt-original-partition"], json!({"$b64": "AAAAAw=="}));
    assert_eq!(
        letter["properties"],
        json!({"timestamp": 1_772_610_000_000_i64, "timestamp_type": "CreateTime", "leader_epoch": 2})
    );

    let publish = api.post(&path, &json!({"dry_run": true})).await.json();
    assert_eq!((&publish["topic"], &publish["partition"]), (&json!("orders"), &json!(3)));
    assert_eq!((publish.get("exchange"), &publish["properties"]), (None, &json!({})));
    let mut names: Vec<_> = publish["headers"].as_object().expect("headers").keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["dlo-letter-id", "dlo-replay-id", "tenant"]);

    let (status, _, detail) = api.post(&path, &json!({"target": "queue"})).await.problem();
    assert_eq!(status, 422);
    assert!(detail.contains("consumer group"), "{detail}");
    assert_eq!(api.post(&path, &json!({"target": {"queue": "orders"}})).await.problem().0, 422);
    assert_eq!(api.post(&path, &json!({"target": {"topic": "orders", "partition": -1}})).await.problem().0, 422);

    let replay = api.post(&path, &json!({"target": {"topic": "side"}})).await;
    assert_eq!((replay.status.as_u16(), &replay.json()["target"]), (202, &json!({"topic": "side"})));
}

#[tokio::test]
async fn a_stored_null_is_sent_only_where_it_is_a_tombstone() {
    let api = Api::local().await;
    let tombstone = api.db.captured_record(record(Some("A-1042"), None), "orders-dlt").await;
    let pointer = api.db.captured_record(record(None, None), "orders-dlt").await;
    let replay = async |id: i64, target: Json| {
        api.post(&format!("/api/v1/letters/{id}/replay"), &json!({"target": target, "dry_run": true})).await
    };

    assert_eq!(replay(tombstone, json!("original")).await.json()["body_bytes"], json!(0));
    for target in [json!("original"), json!({"topic": "orders"})] {
        let (status, _, detail) = replay(pointer, target).await.problem();
        assert_eq!(status, 422);
        assert!(detail.contains("points at its record"), "{detail}");
    }
}
