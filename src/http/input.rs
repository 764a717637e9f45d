//! What handlers are given, with errors that are problems too.

use axum::{
    body::{Bytes, to_bytes},
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Requests are words about letters, never letters themselves.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// A number in the path.
pub(super) struct Id(pub(super) i64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await.map(|Path(text)| text).unwrap_or_default();
        let number = text.parse().map_err(|_| Problem::bad_request(format!("{text:?} is no id; ids are numbers")))?;
        Ok(Self(number))
    }
}

/// The query string as pairs, in their order; names may repeat.
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Pairs {
    /// Takes out the last value of `name`.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let mut taken = None;
        self.0.retain_mut(|(key, value)| {
            let keep = key != name;
            if !keep && !value.is_empty() {
                taken = Some(std::mem::take(value));
            }
            keep
        });
        taken
    }
}

/// A JSON object; nothing at all is an empty one.
pub(super) struct Input<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Input<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let too_large = |_| {
            let detail = format!("a request has {REQUEST_BYTES_MAX} bytes at most");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The request is too large", detail)
        };
        let bytes: Bytes = to_bytes(request.into_body(), REQUEST_BYTES_MAX).await.map_err(too_large)?;
        let json: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { &bytes };
        // Serde would take a list for the fields of an object, in their order.
        if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(Problem::bad_request("the JSON is not as expected: it has to be an object"));
        }
        serde_json::from_slice(json)
            .map(Self)
            .map_err(|error| Problem::bad_request(format!("the JSON is not as expected: {error}")))
    }
}
