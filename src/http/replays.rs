//! `GET replays/{id}`: what became of an attempt.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};

use super::{
    HttpState,
    access::Viewer,
    input::Id,
    problem::{Problem, ProblemBody},
};
use crate::store::{QueryError, replays::Replay};

/// Why a replay is not told.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplaysError {
    #[error("there is no replay {0}")]
    NotFound(i64),
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl IntoResponse for ReplaysError {
    fn into_response(self) -> Response {
        match self {
            Self::NotFound(_) => Problem::not_found(self).into_response(),
            Self::Query(query) => Problem::from(query).into_response(),
        }
    }
}

/// State and verdict of a replay. Never more certain than what is known.
#[utoipa::path(
    get, path = "/replays/{id}", tag = "replays", params(("id" = i64, Path)),
    responses((status = 200, body = Replay), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(super) async fn one(State(state): State<HttpState>, _: Viewer, Id(id): Id) -> Result<Json<Replay>, ReplaysError> {
    Ok(Json(state.store.replay(id).await?.ok_or(ReplaysError::NotFound(id))?))
}
