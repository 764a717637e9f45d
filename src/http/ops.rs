//! The metrics listener: `/metrics`, `/livez` (and `/healthz`), `/readyz`. For machines on the inside; nobody is asked who they are.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;

use crate::{
    metrics::{Metrics, SourceMetrics},
    store::PgStore,
};

/// Readiness does not wait longer for the database.
const READY_DEADLINE: Duration = Duration::from_secs(2);

/// What the probes need. Sources come with their names.
#[derive(Clone, Debug)]
pub struct OpsState {
    pub store: PgStore,
    pub metrics: Metrics,
    pub sources: Arc<Vec<(String, SourceMetrics)>>,
}

#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    database: &'static str,
    sources: Vec<SourceState>,
}

#[derive(Debug, Serialize)]
struct SourceState {
    name: String,
    up: bool,
    /// The database takes no rows; what was received is held.
    blocked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// Everything that the metrics listener serves.
pub fn router(state: OpsState) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(alive))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(state)
}

async fn metrics(State(state): State<OpsState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.metrics.render())
}

/// This process turns; it asks nobody, or an outage of the database would restart it for nothing.
async fn alive() -> &'static str {
    "ok\n"
}

/// Whether this process can serve: its database answers. Sources are told, and do not count.
async fn ready(State(state): State<OpsState>) -> Response {
    let ready = state.store.answers(READY_DEADLINE).await;
    let sources = state.sources.iter().map(|(name, source)| SourceState {
        name: name.clone(),
        up: source.is_up(),
        blocked: source.is_blocked(),
        trouble: source.trouble(),
    });
    let database = if ready { "answers" } else { "does not answer" };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { ready, database, sources: sources.collect() })).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use serde_json::{Value as Json, json};
    use tower::ServiceExt;

    use super::*;
    use crate::store::{StoreOptions, testing::TestDb};

    async fn ask(state: &OpsState, path: &str) -> (u16, String) {
        let request = axum::http::Request::builder().uri(path).body(Body::empty()).expect("a request");
        let response = router(state.clone()).oneshot(request).await.expect("an answer");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, String::from_utf8(body.into()).expect("text"))
    }

    fn state(store: PgStore) -> OpsState {
        let metrics = Metrics::new();
        let sources = vec![("orders".to_owned(), metrics.source("orders", "rabbit"))];
        OpsState { store, metrics, sources: Arc::new(sources) }
    }

    #[tokio::test]
    async fn a_source_in_trouble_is_told_and_does_not_make_it_unready() {
        let db = TestDb::new().await;
        let state = state(db.store.clone());

        let (status, body) = ask(&state, "/readyz").await;

        let body: Json = serde_json::from_str(&body).expect("JSON");
        assert_eq!((status, &body["ready"]), (200, &json!(true)));
        assert_eq!(
            body["sources"][0],
            json!({"name": "orders", "up": false, "blocked": false, "trouble": "not connected yet"})
        );
        assert!(ask(&state, "/metrics").await.1.contains("dlo_source_up{source=\"orders\"} 0"));
    }

    #[tokio::test]
    async fn without_its_database_it_lives_and_is_not_ready() {
        let connect = "postgres://nobody@127.0.0.1:1/none".parse().expect("an address");
        let state = state(PgStore::new(StoreOptions { connect, max_connections: 2, instance: "test".to_owned() }));

        let (status, body) = ask(&state, "/readyz").await;

        assert_eq!(status, 503);
        assert!(body.contains("\"ready\":false"), "{body}");
        assert_eq!(ask(&state, "/livez").await, (200, "ok\n".to_owned()));
        assert_eq!(ask(&state, "/healthz").await.0, 200);
    }
}
