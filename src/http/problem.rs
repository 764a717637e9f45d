//! Errors as RFC 9457 says: `application/problem+json`.

use axum::{
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use utoipa::ToSchema;

use crate::store::QueryError;

/// An error on its way out.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: Box<str>,
    fields: Vec<(&'static str, Json)>,
}

/// An error, as RFC 9457 says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemBody {
    /// `urn:dlo:` and a word that does not change.
    r#type: String,
    title: &'static str,
    status: u16,
    /// What happened, and the way out.
    detail: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    fields: Map<String, Json>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl ToString) -> Self {
        Self { status, kind, title, detail: detail.to_string().into(), fields: Vec::new() }
    }

    /// Adds a field of its own.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Json>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub(super) fn bad_request(detail: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "The request is not understood", detail)
    }

    pub(super) fn not_found(detail: impl ToString) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "There is no such thing", detail)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        match &error {
            QueryError::Refused(_) => Self::bad_request(error),
            QueryError::TooSlow => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "too-slow", "The selection takes too long", error)
            }
            QueryError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Too many questions at once", error),
            QueryError::Unavailable(cause) | QueryError::Schema(cause) => {
                tracing::warn!(error = %cause, "a request could not be answered");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database", "The database does not answer", error)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            r#type: format!("urn:dlo:{}", self.kind),
            title: self.title,
            status: self.status.as_u16(),
            detail: self.detail.into(),
            fields: self.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        };
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"dlo\""));
        }
        response
    }
}

pub(super) async fn no_such_place(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}; /openapi.json lists what is", uri.path()))
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} cannot be asked with {method}; /openapi.json lists what can", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "Not with this method", detail)
}
