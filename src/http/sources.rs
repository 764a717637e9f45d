//! `sources`: what is captured from, how far, and from where it is to be read.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json_;
use utoipa::ToSchema;

use super::{
    HttpState,
    access::{Operator, Viewer},
    input::Input,
    problem::{Problem, ProblemBody},
};
use crate::store::{
    QueryError,
    sources::{Seek, SeekError, Seeking, SourceView},
};

/// Why a request about sources was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourcesError {
    #[error("{0} is no offset; write a number: GET sources (dlo sources) tells each partition's first and end")]
    NoNumber(Json_),
    #[error(transparent)]
    Seek(#[from] SeekError),
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl IntoResponse for SourcesError {
    fn into_response(self) -> Response {
        let no_way = |detail: String| {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no-position", "It cannot be read from there", detail)
        };
        let problem = match self {
            Self::Query(query) | Self::Seek(SeekError::Query(query)) => query.into(),
            Self::NoNumber(_) => no_way(self.to_string()),
            Self::Seek(error) => {
                let told = error.to_string();
                match error {
                    SeekError::BeforeFirst { first, .. } => no_way(told).with("first", first),
                    SeekError::BeyondEnd { end, .. } => no_way(told).with("end", end),
                    SeekError::NotJoined(_) => {
                        Problem::new(StatusCode::CONFLICT, "not-joined", "Not as it stands", told)
                    }
                    SeekError::NotKafka(_) | SeekError::Negative(_) => no_way(told),
                    _ => Problem::not_found(told),
                }
            }
        };
        problem.into_response()
    }
}

/// What is captured from.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SourceList {
    items: Vec<SourceView>,
    /// Always null: there is one page.
    next: Option<String>,
}

/// Where a partition is to be read from.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SeekRequest {
    topic: String,
    partition: i32,
    /// The next offset to read.
    #[schema(value_type = i64)]
    to: Json_,
    /// Answer with what it would mean, and change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// All sources that instances have reported, by name.
#[utoipa::path(
    get, path = "/sources", tag = "sources",
    responses((status = 200, body = SourceList), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(super) async fn list(State(state): State<HttpState>, _: Viewer) -> Result<Json<SourceList>, SourcesError> {
    Ok(Json(SourceList { items: state.store.sources().await?, next: None }))
}

/// Sets the position of a Kafka partition. Whoever reads it goes there within seconds: back means that messages are
/// captured a second time, forward that messages are never captured.
#[utoipa::path(
    post, path = "/sources/{name}/seek", tag = "sources", params(("name" = String, Path)), request_body = SeekRequest,
    responses((status = 200, body = Seek), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(super) async fn seek(
    State(state): State<HttpState>,
    Operator(caller): Operator,
    Path(name): Path<String>,
    Input(request): Input<SeekRequest>,
) -> Result<Json<Seek>, SourcesError> {
    let to = request.to.as_i64().ok_or_else(|| SourcesError::NoNumber(request.to.clone()))?;
    let SeekRequest { topic, partition, dry_run, .. } = &request;
    let seeking = Seeking { source: &name, topic, partition: *partition, to, dry_run: *dry_run };
    Ok(Json(state.store.seek(&seeking, &caller.actor).await?))
}

#[cfg(test)]
mod tests;
