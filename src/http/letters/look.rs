//! `GET letters/{id}`, its body, its lives.

use axum::{
    Json,
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::LettersError;
use crate::{
    http::{HttpState, access::Viewer, input::Id, problem::ProblemBody},
    store::query::{Letter, Lives},
};

/// One letter with all there is.
#[utoipa::path(
    get, path = "/letters/{id}", tag = "letters", params(("id" = i64, Path)),
    responses((status = 200, body = Letter), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn one(
    State(state): State<HttpState>,
    Viewer(caller): Viewer,
    Id(id): Id,
) -> Result<Json<Letter>, LettersError> {
    let mut letter = state.store.letter(id).await?.ok_or(LettersError::NotFound(id))?;
    if !caller.bodies {
        letter.withhold_body();
    }
    Ok(Json(letter))
}

/// The exact bytes. Always `application/octet-stream`; what the message says of itself is in `dlo-content-type`.
#[utoipa::path(
    get, path = "/letters/{id}/body", tag = "letters", params(("id" = i64, Path)),
    responses(
        (status = 200, body = [u8], content_type = "application/octet-stream"),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json")
    ),
)]
pub(crate) async fn body(
    State(state): State<HttpState>,
    Viewer(caller): Viewer,
    Id(id): Id,
) -> Result<Response, LettersError> {
    caller.may_see_bodies()?;
    let found = state.store.body(id).await?.ok_or(LettersError::NotFound(id))?;
    let body = found.ok_or(LettersError::NoBody(id))?;
    let disposition = format!("attachment; filename=\"letter-{id}.bin\"");
    let mut response = (
        [(header::CONTENT_TYPE, "application/octet-stream".to_owned()), (header::CONTENT_DISPOSITION, disposition)],
        body.bytes,
    )
        .into_response();
    if let Some(told) = body.content_type.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
        response.headers_mut().insert(HeaderName::from_static("dlo-content-type"), told);
    }
    Ok(response)
}

/// The first letter, what came back of its replays, second copies, and the replays.
#[utoipa::path(
    get, path = "/letters/{id}/lives", tag = "letters", params(("id" = i64, Path)),
    responses((status = 200, body = Lives), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn lives(State(state): State<HttpState>, _: Viewer, Id(id): Id) -> Result<Json<Lives>, LettersError> {
    Ok(Json(state.store.lives(id).await?.ok_or(LettersError::NotFound(id))?))
}

#[cfg(test)]
mod tests;
