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
