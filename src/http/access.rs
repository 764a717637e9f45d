//! Who asks, and whether they may.

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::{HttpState, problem::Problem};
use crate::store::tokens::Role;

/// How callers are told apart.
#[derive(Clone, Debug)]
pub enum Access {
    /// By `Authorization: Bearer TOKEN`.
    Token,
    /// Not at all: everybody may look, but not into bodies. `full`: everybody may everything. `hosts` are names
    /// beside those of the loopback interface under which the listener may be addressed.
    Open { full: bool, hosts: Vec<String> },
    /// Not reachable from outside: the command line, in process, as whoever runs it.
    Local { actor: String },
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name in the audit trail.
    pub actor: String,
    pub role: Role,
    /// Whether this caller may see business content.
    pub bodies: bool,
}

/// Finds out who asks, or refuses with 401.
pub(super) async fn identify(State(state): State<HttpState>, mut request: Request, next: Next) -> Response {
    let caller = match &state.access {
        Access::Local { actor } => Caller { actor: actor.clone(), role: Role::Admin, bodies: true },
        Access::Open { full, .. } => {
            let role = if *full { Role::Admin } else { Role::Viewer };
            Caller { actor: "anybody".to_owned(), role, bodies: *full }
        }
        Access::Token => match holder(&state, bearer(&request)).await {
            Ok(caller) => caller,
            Err(problem) => return problem.into_response(),
        },
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

fn bearer(request: &Request) -> Option<String> {
    let (scheme, token) = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

async fn holder(state: &HttpState, token: Option<String>) -> Result<Caller, Problem> {
    let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "no-token", "Who are you?", detail);
    let token = token.ok_or_else(|| refused("send Authorization: Bearer TOKEN; dlo token create makes a token"))?;
    match state.store.token_holder(&token).await? {
        Some((name, role)) => Ok(Caller { actor: format!("token:{name}"), role, bodies: true }),
        None => Err(refused("this token is not known, or was revoked")),
    }
}

impl Caller {
    fn require(self, role: Role) -> Result<Self, Problem> {
        if self.role >= role {
            return Ok(self);
        }
        let detail =
            format!("this takes the role {}; {} has the role {}", role.as_str(), self.actor, self.role.as_str());
        Err(forbidden(detail).with("required", role.as_str()))
    }

    /// Refuses those who may not see business content.
    pub(super) fn may_see_bodies(&self) -> Result<(), Problem> {
        if self.bodies {
            return Ok(());
        }
        Err(forbidden(
            "bodies are not shown with auth: none; use auth: token, or insecure_full_access: true".to_owned(),
        ))
    }
}

fn forbidden(detail: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", "You may not", detail)
}

/// A caller who may look.
pub(super) struct Viewer(pub(super) Caller);
/// A caller who may act on letters.
pub(super) struct Operator(pub(super) Caller);
/// A caller who may say who may.
pub(super) struct Admin(pub(super) Caller);

fn caller(parts: &Parts, role: Role) -> Result<Caller, Problem> {
    let nobody = || Problem::new(StatusCode::UNAUTHORIZED, "no-token", "Who are you?", "nobody asked who you are");
    parts.extensions.get::<Caller>().cloned().ok_or_else(nobody)?.require(role)
}

impl<S: Sync> FromRequestParts<S> for Viewer {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller(parts, Role::Viewer).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller(parts, Role::Operator).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Admin {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller(parts, Role::Admin).map(Self)
    }
}

/// The OpenAPI document's word for it.
pub(super) struct BearerScheme;

impl utoipa::Modify for BearerScheme {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        openapi.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

#[cfg(test)]
mod tests;
