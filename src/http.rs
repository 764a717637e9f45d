//! The HTTP API: look at letters, ask for things to be done with them.
//!
//! Nothing here publishes or captures: a replay is a row that the replay loop finds. The command line uses the same
//! [`router`], over the network or in process, so there is one behaviour, one permission check, one audit trail.

mod access;
mod guard;
mod input;
mod letters;
pub mod ops;
mod problem;
mod replays;
mod sources;
#[cfg(test)]
mod testing;
mod tokens;

use axum::{Json, Router, middleware, routing::get};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::access::BearerScheme;
pub use self::access::{Access, Caller};
use crate::{clock::Clock, store::PgStore};

/// What the handlers need.
#[derive(Clone, Debug)]
pub struct HttpState {
    pub store: PgStore,
    pub access: Access,
    pub clock: Clock,
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Dead Letter Office", description = "Captured dead letters: look, replay, decide."),
    components(schemas(problem::ProblemBody)),
    modifiers(&BearerScheme),
    security(("token" = []))
)]
struct Document;

fn api() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(letters::list::list))
        .routes(routes!(letters::look::one))
        .routes(routes!(letters::look::body))
        .routes(routes!(letters::look::lives))
        .routes(routes!(letters::act::replay))
        .routes(routes!(letters::act::discard))
        .routes(routes!(letters::act::reopen))
        .routes(routes!(letters::act::resolve))
        .routes(routes!(replays::one))
        .routes(routes!(sources::list))
        .routes(routes!(sources::seek))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
}

/// The OpenAPI document, made from the handlers.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    OpenApiRouter::with_openapi(Document::openapi()).nest("/api/v1", api()).split_for_parts().1
}

/// Everything that the API listener serves.
pub fn router(state: HttpState) -> Router {
    let (api, document) = OpenApiRouter::with_openapi(Document::openapi()).nest("/api/v1", api()).split_for_parts();
    api.route_layer(middleware::from_fn_with_state(state.clone(), access::identify))
        .route("/openapi.json", get(async move || Json(document)))
        .fallback(problem::no_such_place)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(middleware::from_fn_with_state(state.clone(), guard::guard))
        .layer(middleware::map_response(guard::harden))
        .with_state(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_route_with_its_permission_scheme() {
        let document = serde_json::to_value(openapi()).expect("JSON");
        let paths: Vec<&String> = document["paths"].as_object().expect("paths").keys().collect();
        for path in [
            "letters",
            "letters/{id}",
            "letters/{id}/body",
            "letters/{id}/lives",
            "letters/{id}/replay",
            "tokens",
            "replays/{id}",
            "sources",
            "sources/{name}/seek",
        ] {
            assert!(paths.contains(&&format!("/api/v1/{path}")), "{path}: {paths:?}");
        }
        assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
        assert!(document["components"]["schemas"]["Problem"].is_object());
    }

    #[test]
    fn the_document_lists_the_selection_terms_that_the_store_knows() {
        let document = serde_json::to_value(openapi()).expect("JSON");
        let parameters =
            document["paths"]["/api/v1/letters"]["get"]["parameters"].as_array().expect("parameters").clone();
        let listed: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
        for (term, _) in crate::store::query::TERMS {
            assert!(listed.contains(&term), "{term}");
        }
    }
}
