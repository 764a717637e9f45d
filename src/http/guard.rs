//! What holds for every request and every response, whoever asks.

use axum::{
    body::HttpBody,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{HttpState, access::Access, problem::Problem};

/// Refuses what a browser could be made to send for somebody else's page.
///
/// A form cannot send JSON, nor a token, and a script needs our leave for either, which we never give. Without tokens a name that is
/// not ours, rebound to this machine, would reach us: such names are refused.
pub(super) async fn guard(State(state): State<HttpState>, request: Request, next: Next) -> Response {
    if let Access::Open { hosts, .. } = &state.access
        && !host_is_ours(&request, hosts)
    {
        let detail = "without tokens this address is served under localhost, 127.0.0.1 and [::1] only; http.external_url adds a name";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", "Not our name", detail).into_response();
    }
    let changes = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    if changes && !is_json(&request) && !says_nothing_by_token(&request) {
        let detail = "send Content-Type: application/json, and {} where there is nothing to say";
        return Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "JSON only", detail).into_response();
    }
    next.run(request).await
}

fn is_json(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// `curl -X POST -H 'Authorization: Bearer …'`: an empty request needs no type.
fn says_nothing_by_token(request: &Request) -> bool {
    let headers = request.headers();
    let bearer = headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer "));
    bearer && !headers.contains_key(header::CONTENT_TYPE) && request.body().size_hint().exact() == Some(0)
}

fn host_is_ours(request: &Request, hosts: &[String]) -> bool {
    let named = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let Some(authority) = named.or_else(|| request.uri().host()) else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|ours| host.eq_ignore_ascii_case(ours))
        || hosts.iter().any(|ours| host.eq_ignore_ascii_case(ours))
}

/// Nothing we send is to be guessed at, framed, cached or run by a browser.
pub(super) async fn harden(mut response: Response) -> Response {
    const ALWAYS: [(HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in ALWAYS {
        // A page says itself what it needs.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
