use serde_json::{Value as Json, json};

use crate::{
    http::{
        Access,
        testing::{Answer, Api},
    },
    store::{
        sources::{Report, Sighting},
        tokens::Role,
    },
};

fn report(name: &str, broker_kind: &'static str) -> Report {
    Report {
        name: name.to_owned(),
        broker: "main".to_owned(),
        broker_kind,
        cluster_id: None,
        group_id: None,
        topics: None,
        queue: None,
        waiting: None,
        partitions: Vec::new(),
        up: true,
        trouble: None,
        last_letter_seconds: None,
    }
}

/// Topic `t` of two partitions, whose messages are at 10 to 110.
fn kafka(name: &str, group: &str) -> Report {
    let sighting = |partition| Sighting {
        topic: "t".to_owned(),
        partition,
        first: Some(10),
        end: Some(110),
        stopped_at: None,
        reset_to: None,
    };
    Report {
        cluster_id: Some("c".to_owned()),
        group_id: Some(group.to_owned()),
        topics: Some(vec!["t".to_owned()]),
        partitions: vec![sighting(0), sighting(1)],
        ..report(name, "kafka")
    }
}

/// Source `payments` at 100 in both partitions.
async fn with(api: &Api, report: Report) {
    let insert = "INSERT INTO dlo_positions (cluster_id, group_id, topic, partition, topic_id, position, since)
                  SELECT 'c', g, 't', p, gen_random_uuid(), 100, 50 FROM generate_series(0, 1) p, unnest(ARRAY['dlo', 'other']) g";
    api.db.sql(insert).await;
    api.db.store.report_sources(&[report]).await.expect("reported");
}

async fn seek(api: &Api, topic: &str, partition: i32, to: Json) -> Answer {
    api.post("/api/v1/sources/payments/seek", &json!({"topic": topic, "partition": partition, "to": to})).await
}

async fn position(api: &Api) -> i64 {
    api.db.sql("SELECT position FROM dlo_positions WHERE group_id = 'dlo' AND partition = 0").await
}

#[tokio::test]
async fn a_source_is_listed_with_its_partitions_and_what_is_known_of_them() {
    let api = Api::local().await;
    let mut report = kafka("payments", "dlo");
    report.partitions[1].stopped_at = Some(100);
    report.partitions[1].end = Some(90);
    report.partitions[0].reset_to = Some(7);
    report.last_letter_seconds = Some(60.0);
    with(&api, report).await;

    let list = api.get("/api/v1/sources").await.json();

    let source = &list["items"][0];
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&source["name"], &source["group"], &source["waiting"]),
        (&json!("payments"), &json!("dlo"), &json!(10))
    );
    assert_eq!((&source["state"], &source["trouble"].to_string().contains("stopped: 1")), (&json!("partly"), &true));
    assert_eq!(source["instances"][0]["instance"], "test");
    assert!(source["last_letter_at"].is_string());
    let partitions = source["partitions"].as_array().expect("partitions");
    assert_eq!(partitions.len(), 2, "those of the other group are not ours: {partitions:?}");
    let zero =
        json!([partitions[0]["position"], partitions[0]["since"], partitions[0]["end"], partitions[0]["waiting"]]);
    assert_eq!(zero, json!([100, 50, 110, 10]));
    assert_eq!((&partitions[0]["stopped"], &partitions[0]["group_reset_to"]), (&json!(false), &json!(7)));
    assert_eq!((&partitions[1]["stopped"], &partitions[1]["waiting"]), (&json!(true), &json!(0)));
}

#[tokio::test]
async fn a_queue_is_listed_with_the_sessions_of_those_that_live() {
    let api = Api::local().await;
    let mut report = report("orders", "rabbitmq");
    (report.queue, report.waiting) = (Some("dlo.orders".to_owned()), Some(3));
    api.db.store.report_sources(&[report.clone()]).await.expect("reported");
    let queue = api.get("/api/v1/sources").await.json()["items"][0]["queues"][0].clone();
    assert_eq!(queue, json!({"queue": "dlo.orders", "waiting": 3, "open_sessions": 0, "instances": []}));

    api.db.store.present("host", "1", &["capture"]).await.expect("present");
    api.db.sql("INSERT INTO dlo_queue_epochs (source, queue) VALUES ('orders', 'dlo.orders')").await;
    let sessions = "INSERT INTO dlo_capture_sessions (source, queue, instance, floor_id, ceiling_id, closed_at)
                    VALUES ('orders', 'dlo.orders', 'test', 0, 0, NULL), ('orders', 'dlo.orders', 'test', 0, 0, now()),
                           ('orders', 'dlo.orders', 'dead', 0, 0, NULL)";
    api.db.sql(sessions).await;
    let source = api.get("/api/v1/sources").await.json()["items"][0].clone();
    assert_eq!(
        source["queues"],
        json!([{"queue": "dlo.orders", "waiting": 3, "open_sessions": 1, "instances": ["test"]}])
    );
    assert_eq!((&source["state"], &source["waiting"]), (&json!("up"), &json!(3)));

    (report.up, report.trouble) = (false, Some("connection refused".to_owned()));
    api.db.store.report_sources(&[report]).await.expect("reported");
    let source = api.get("/api/v1/sources").await.json()["items"][0].clone();
    assert_eq!((&source["state"], &source["trouble"]), (&json!("down"), &json!("connection refused")));

    api.db.store.leave().await.expect("left");
    let source = api.get("/api/v1/sources").await.json()["items"][0].clone();
    assert_eq!((&source["state"], &source["instances"]), (&json!("away"), &json!([])), "known, and nobody's");
}

#[tokio::test]
async fn a_seek_sets_the_position_and_says_what_it_means() {
    let api = Api::local().await;
    with(&api, kafka("payments", "dlo")).await;

    let would = json!({"topic": "t", "partition": 0, "to": 60, "dry_run": true});
    let dry = api.post("/api/v1/sources/payments/seek", &would).await.json();
    assert_eq!((&dry["captured_again"], &dry["changed"], position(&api).await), (&json!(40), &json!(false), 100));
    assert!(api.audit().await.is_empty());

    let back = seek(&api, "t", 0, json!(20)).await.json();
    assert_eq!((&back["from"], &back["captured_again"], &back["skipped"]), (&json!(100), &json!(80), &json!(0)));
    assert_eq!((&back["changed"], position(&api).await), (&json!(true), 20));
    let since = api.db.sql("SELECT since::bigint FROM dlo_positions WHERE group_id = 'dlo' AND partition = 0").await;
    assert_eq!(since, 20, "a database that forgets the partition begins there");
    let forth = seek(&api, "t", 0, json!(110)).await.json();
    assert_eq!((&forth["captured_again"], &forth["skipped"], position(&api).await), (&json!(0), &json!(90), 110));
    assert_eq!(seek(&api, "t", 0, json!(110)).await.json()["changed"], false);
    assert_eq!(api.audit().await, ["dlo/tester sources seek"; 2]);
    let others = api.db.sql("SELECT count(*) FROM dlo_positions WHERE position <> 100").await;
    assert_eq!(others, 1, "no other partition, no other group");
    let trail: String = sqlx::query_scalar("SELECT details::text FROM dlo_audit ORDER BY id LIMIT 1")
        .fetch_one(api.db.store.pool())
        .await
        .expect("a trail");
    let trail: Json = serde_json::from_str(&trail).expect("JSON");
    assert_eq!((&trail["source"], &trail["from"], &trail["to"]), (&json!("payments"), &json!(100), &json!(20)));
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_what_is() {
    let api = Api::local().await;
    assert!(seek(&api, "t", 0, json!(1)).await.problem().2.contains("there are: none yet"));
    with(&api, kafka("payments", "dlo")).await;
    api.db.store.report_sources(&[report("orders", "rabbitmq"), report("new", "kafka")]).await.expect("reported");

    let refused = async |name: &str, topic: &str, partition: i32, to: Json| {
        let path = format!("/api/v1/sources/{name}/seek");
        let (status, kind, detail) =
            api.post(&path, &json!({"topic": topic, "partition": partition, "to": to})).await.problem();
        (status, format!("{kind}: {detail}"))
    };
    for (name, topic, partition, to, status, says) in [
        ("nobody", "t", 0, json!(1), 404, "not-found: there is no source \"nobody\"; there are: new, orders, payments"),
        ("payments", "x", 0, json!(1), 404, "its topics are: t"),
        ("payments", "t", 7, json!(1), 404, "its partitions are: 0, 1"),
        ("orders", "t", 0, json!(1), 422, "only Kafka partitions"),
        ("new", "t", 0, json!(1), 409, "not-joined: "),
        ("payments", "t", 0, json!(-1), 422, "-1 is no offset"),
        ("payments", "t", 0, json!("earliest"), 422, "\"earliest\" is no offset; write a number"),
        ("payments", "t", 0, json!(9), 422, "the oldest that the broker still has is at 10"),
        ("payments", "t", 0, json!(111), 422, "was at 110 a moment ago"),
    ] {
        let (found, detail) = refused(name, topic, partition, to).await;
        assert!(found == status && detail.contains(says), "{found}: {detail}");
    }
    assert_eq!(api.post("/api/v1/sources/payments/seek", &json!({"topic": "t"})).await.problem().0, 400);
    assert_eq!((position(&api).await, api.audit().await.len()), (100, 0));
}

#[tokio::test]
async fn what_nobody_looks_at_any_more_is_not_checked_against_and_can_be_set() {
    let api = Api::local().await;
    with(&api, kafka("payments", "dlo")).await;
    api.db.store.leave().await.expect("left");

    let far = seek(&api, "t", 0, json!(500)).await.json();

    assert_eq!((&far["end"], &far["skipped"], position(&api).await), (&Json::Null, &json!(400), 500));
}

#[tokio::test]
async fn a_stopped_partition_goes_back_to_its_end_and_no_further() {
    let api = Api::local().await;
    let mut report = kafka("payments", "dlo");
    report.partitions[0].end = Some(80);
    report.partitions[0].stopped_at = Some(100);
    with(&api, report.clone()).await;

    assert!(seek(&api, "t", 0, json!(90)).await.problem().2.contains("was at 80"));
    let back = seek(&api, "t", 0, json!(70)).await.json();
    assert_eq!(
        (&back["captured_again"], &back["from"]),
        (&json!(10), &json!(100)),
        "there are no more than to its end"
    );
    let source = api.get("/api/v1/sources").await.json()["items"][0].clone();
    assert_eq!((&source["state"], &source["partitions"][0]["stopped"]), (&json!("up"), &json!(false)));
}

#[tokio::test]
async fn an_instance_that_took_over_knows_no_less_than_the_one_before() {
    let api = Api::local().await;
    let mut before = kafka("payments", "dlo");
    before.last_letter_seconds = Some(60.0);
    with(&api, before).await;
    let mut other = api.db.store.clone();
    other.instance = "other".to_owned();
    let began = Report { cluster_id: None, partitions: Vec::new(), up: false, ..kafka("payments", "dlo") };
    other.report_sources(&[began]).await.expect("reported");

    let source = api.get("/api/v1/sources").await.json()["items"][0].clone();
    assert_eq!((&source["state"], source["instances"].as_array().map(Vec::len)), (&json!("partly"), Some(2)));
    assert_eq!((&source["cluster"], &source["partitions"][0]["end"]), (&json!("c"), &json!(110)));
    api.db.sql("DELETE FROM dlo_sources WHERE instance = 'test'").await;
    assert!(api.get("/api/v1/sources").await.json()["items"][0]["last_letter_at"].is_string());
}

#[tokio::test]
async fn viewers_look_and_operators_seek() {
    let mut api = Api::with(Access::Token).await;
    with(&api, kafka("payments", "dlo")).await;
    for (role, expected) in [(Role::Viewer, 403), (Role::Operator, 200)] {
        let token = api.db.store.create_token(role.as_str(), role, "test").await.expect("a token");
        let api = api.bearing(Some(token.expose()));
        assert_eq!(api.get("/api/v1/sources").await.status, 200);
        assert_eq!(seek(api, "t", 0, json!(60)).await.status, expected, "{role:?}");
    }
    assert_eq!(api.bearing(None).get("/api/v1/sources").await.status, 401);
    assert_eq!(api.audit().await.last().map(String::as_str), Some("token:operator sources seek"));
}
