use axum::{body::Body, http::Method};
use serde_json::json;

use super::Access;
use crate::{http::testing::Api, store::tokens::Role};

async fn token(api: &Api, role: Role) -> String {
    api.db.store.create_token(role.as_str(), role, "test").await.expect("a token").expose().to_owned()
}

#[tokio::test]
async fn roles_may_what_they_may() {
    let mut api = Api::with(Access::Token).await;
    let letter = api.db.captured(b"secret").await;
    let tokens = [
        None,
        Some(token(&api, Role::Viewer).await),
        Some(token(&api, Role::Operator).await),
        Some(token(&api, Role::Admin).await),
    ];

    for (token, expected) in
        tokens.iter().zip([[401, 401, 401, 401], [200, 200, 403, 403], [200, 200, 200, 403], [200, 200, 200, 200]])
    {
        let api = api.bearing(token.as_deref());
        let found = [
            api.get("/api/v1/letters").await.status.as_u16(),
            api.get(&format!("/api/v1/letters/{letter}/body")).await.status.as_u16(),
            api.post(&format!("/api/v1/letters/{letter}/discard"), &json!({})).await.status.as_u16(),
            api.get("/api/v1/tokens").await.status.as_u16(),
        ];
        assert_eq!(found, expected, "{token:?}");
    }
    assert_eq!(api.audit().await.last().map(String::as_str), Some("token:operator discard {1}"));
}

#[tokio::test]
async fn strangers_learn_nothing() {
    let mut api = Api::with(Access::Token).await;
    let viewer = token(&api, Role::Viewer).await;
    for wrong in ["", "x", "dlo_", &viewer[..viewer.len() - 1], &format!("{viewer}x")] {
        let answer = api.bearing(Some(wrong)).get("/api/v1/letters").await;
        assert_eq!(
            (answer.problem().0, answer.headers["www-authenticate"].to_str().ok()),
            (401, Some("Bearer realm=\"dlo\""))
        );
    }
    assert_eq!(api.bearing(Some(&viewer)).get("/api/v1/letters").await.status, 200);
    assert_eq!(api.bearing(None).get("/openapi.json").await.status, 200, "what the API is like is no secret");
}

#[tokio::test]
async fn without_tokens_everybody_looks_and_nobody_reads_bodies() {
    let api = Api::with(Access::Open { full: false, hosts: vec!["dlo.example.org".to_owned()] }).await;
    let id = api.db.captured(b"{\"card\": \"4111\"}").await;

    let letter = api.get(&format!("/api/v1/letters/{id}")).await;
    assert_eq!(letter.status, 200);
    assert!(!String::from_utf8_lossy(&letter.body).contains("4111"));
    assert_eq!(letter.json()["omitted"], json!(["body", "payload", "wire"]));
    for path in ["letters/1/body", "letters?text=4111", "letters?payload=$.card"] {
        assert_eq!(api.get(&format!("/api/v1/{path}")).await.problem().0, 403, "{path}");
    }
    assert_eq!(api.post(&format!("/api/v1/letters/{id}/discard"), &json!({})).await.problem().0, 403);
}

#[tokio::test]
async fn without_tokens_a_rebound_name_is_refused() {
    let api = Api::with(Access::Open { full: true, hosts: vec!["dlo.example.org".to_owned()] }).await;
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:8390", 200),
        ("[::1]:8390", 200),
        ("DLO.example.org", 200),
        ("evil.example:8390", 421),
        ("localhost.evil.example", 421),
    ] {
        let request = axum::http::Request::builder().uri("/api/v1/letters").header("host", host).body(Body::empty());
        assert_eq!(api.send(request.expect("a request")).await.status.as_u16(), status, "{host}");
    }
}

#[tokio::test]
async fn what_a_form_can_send_is_refused() {
    let api = Api::local().await;
    let id = api.db.captured(b"{}").await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let request = api.request(Method::POST, &format!("/api/v1/letters/{id}/discard")).header("content-type", kind);
        assert_eq!(api.send(request.body(Body::from("{}")).expect("a request")).await.problem().0, 415, "{kind}");
    }
    let bare = api.request(Method::POST, &format!("/api/v1/letters/{id}/discard")).body(Body::empty());
    assert_eq!(api.send(bare.expect("a request")).await.problem().0, 415);
}

/// As `curl -X POST -H 'Authorization: Bearer …'` does it, which no form can.
#[tokio::test]
async fn with_a_token_a_request_that_says_nothing_needs_no_type() {
    let mut api = Api::with(Access::Token).await;
    let id = api.db.captured(b"{}").await;
    let token = token(&api, Role::Operator).await;
    let path = format!("/api/v1/letters/{id}/discard");
    api.bearing(Some(&token));

    let form = api.request(Method::POST, &path).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(api.send(form.body(Body::empty()).expect("a request")).await.problem().0, 415);
    let untyped = api.request(Method::POST, &path).body(Body::from("{}"));
    assert_eq!(api.send(untyped.expect("a request")).await.problem().0, 415);
    let empty = api.request(Method::POST, &path).body(Body::empty());
    assert_eq!(api.send(empty.expect("a request")).await.status, 200);
}

#[tokio::test]
async fn every_answer_is_hardened() {
    let api = Api::with(Access::Token).await;
    for path in ["/openapi.json", "/api/v1/letters", "/nowhere"] {
        let headers = api.get(path).await.headers;
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert!(
            headers["content-security-policy"].to_str().is_ok_and(|csp| csp.starts_with("default-src 'none'")),
            "{path}"
        );
    }
}
