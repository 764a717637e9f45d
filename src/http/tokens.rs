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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::http::{Access, testing::Api};

    #[tokio::test]
    async fn a_token_works_until_it_is_revoked() {
        let mut api = Api::with(Access::Token).await;
        let first = api.db.store.ensure_first_token().await.expect("made").expect("none before");
        assert!(api.db.store.ensure_first_token().await.expect("asked").is_none(), "only once");
        api.bearing(Some(first.expose()));

        let made = api.post("/api/v1/tokens", &json!({"name": "anna", "role": "viewer"})).await;
        assert_eq!(made.status, 201);
        let token = made.json()["token"].as_str().expect("a token").to_owned();
        assert_eq!(api.post("/api/v1/tokens", &json!({"name": "anna", "role": "admin"})).await.problem().0, 409);
        assert_eq!(api.post("/api/v1/tokens", &json!({"name": "a b", "role": "viewer"})).await.problem().0, 400);
        assert_eq!(api.post("/api/v1/tokens", &json!({"name": "b", "role": "king"})).await.problem().0, 400);
        let list = api.get("/api/v1/tokens").await;
        assert_eq!(list.json()["items"][0]["name"], "anna");
        assert!(!String::from_utf8_lossy(&list.body).contains(&token), "a token is shown once");

        assert_eq!(api.bearing(Some(&token)).get("/api/v1/letters").await.status, 200);
        assert_eq!(api.bearing(Some(first.expose())).delete("/api/v1/tokens/anna").await.status, 204);
        assert_eq!(api.delete("/api/v1/tokens/nobody").await.problem().0, 404);
        assert_eq!(api.bearing(Some(&token)).get("/api/v1/letters").await.status, 401);
        assert_eq!(
            api.audit().await,
            ["dlo token create", "token:first-admin token create", "token:first-admin token revoke"]
        );
    }

    #[tokio::test]
    async fn the_database_never_holds_a_token() {
        let api = Api::local().await;
        let secret = api.db.store.ensure_first_token().await.expect("made").expect("none before");
        let text = "SELECT count(*) FROM dlo_tokens t, dlo_audit a WHERE strpos(concat(t, a), $1) > 0";
        let found: i64 =
            sqlx::query_scalar(text).bind(secret.expose()).fetch_one(api.db.store.pool()).await.expect("asked");
        assert_eq!(found, 0);
        assert_eq!(format!("{secret:?}"), "***");
    }
}
