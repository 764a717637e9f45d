//! `tokens`: who may.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    HttpState,
    access::Admin,
    input::Input,
    problem::{Problem, ProblemBody},
};
use crate::store::{
    QueryError,
    tokens::{Role, Token, TokenError},
};

/// Why nothing was done about a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokensError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl IntoResponse for TokensError {
    fn into_response(self) -> Response {
        let problem = match self {
            Self::Query(query) | Self::Token(TokenError::Query(query)) => query.into(),
            Self::Token(error) => match error {
                TokenError::NameTaken(_) => {
                    Problem::new(StatusCode::CONFLICT, "name-taken", "The name is taken", error)
                }
                TokenError::NotFound(_) => Problem::not_found(error),
                TokenError::BadName => Problem::bad_request(error),
                TokenError::Random(_) | TokenError::Query(_) => {
                    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "No random numbers", error)
                }
            },
        };
        problem.into_response()
    }
}

/// Every token that was ever made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenList {
    items: Vec<Token>,
    /// Always null: there is one page.
    next: Option<String>,
}

/// A token to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    name: String,
    role: Role,
}

/// A new token, shown this once.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MadeToken {
    name: String,
    role: Role,
    token: String,
}

/// All tokens by name, without themselves.
#[utoipa::path(
    get, path = "/tokens", tag = "tokens",
    responses((status = 200, body = TokenList), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(super) async fn list(State(state): State<HttpState>, _: Admin) -> Result<Json<TokenList>, TokensError> {
    Ok(Json(TokenList { items: state.store.tokens().await?, next: None }))
}

/// Makes a token. It is shown in this answer and never again.
#[utoipa::path(
    post, path = "/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, body = MadeToken), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(super) async fn create(
    State(state): State<HttpState>,
    Admin(caller): Admin,
    Input(new): Input<NewToken>,
) -> Result<(StatusCode, Json<MadeToken>), TokensError> {
    let secret = state.store.create_token(&new.name, new.role, &caller.actor).await?;
    let made = MadeToken { name: new.name, role: new.role, token: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Revokes a token, at once.
#[utoipa::path(
    delete, path = "/tokens/{name}", tag = "tokens", params(("name" = String, Path)),
    responses((status = 204), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(super) async fn revoke(
    State(state): State<HttpState>,
    Admin(caller): Admin,
    Path(name): Path<String>,
) -> Result<StatusCode, TokensError> {
    state.store.revoke_token(&name, &caller.actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
