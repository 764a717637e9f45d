//! The API, as commands see it: over the network, or the same router in process.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Method, Request, header},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value as Json;
use tower::ServiceExt;
use url::{Url, form_urlencoded};

use super::{CliError, Global, database, system_user};
use crate::{
    clock::Clock,
    http::{Access, HttpState, router},
};

const CONNECT_DEADLINE: Duration = Duration::from_secs(6);
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// A way to the API.
#[derive(Debug)]
pub(super) struct Client(Way);

#[derive(Debug)]
enum Way {
    Network { http: reqwest::Client, base: Url, token: Option<String> },
    InProcess(Router),
}

/// What is read of a problem.
#[derive(Debug, Deserialize)]
struct Problem {
    detail: String,
}

impl Client {
    /// The server that was named, else the database.
    pub(super) async fn open(global: &Global) -> Result<Self, CliError> {
        match global.server.as_deref().map(str::trim).filter(|server| !server.is_empty()) {
            Some(server) => network(server).map(Self),
            None => in_process(global).await.map(Self),
        }
    }

    /// The text of a JSON answer.
    pub(super) async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<String, CliError> {
        text(self.send(Method::GET, path, query, None).await?)
    }

    pub(super) async fn get_bytes(&self, path: &str) -> Result<Bytes, CliError> {
        self.send(Method::GET, path, &[], None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Json) -> Result<String, CliError> {
        text(self.send(Method::POST, path, &[], Some(body)).await?)
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), CliError> {
        self.send(Method::DELETE, path, &[], None).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Json>,
    ) -> Result<Bytes, CliError> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let place = format!("/api/v1/{path}{}{query}", if query.is_empty() { "" } else { "?" });
        let body = body.map(Json::to_string);
        let (status, bytes) = match &self.0 {
            Way::InProcess(router) => call(router.clone(), method, &place, body).await?,
            Way::Network { http, base, token } => fetch(http, base, token.as_deref(), (method, &place, body)).await?,
        };
        if (200..300).contains(&status) { Ok(bytes) } else { Err(refused(status, &bytes)) }
    }
}

/// Reads an answer's JSON; a newer server may say more.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, CliError> {
    serde_json::from_str(text)
        .map_err(|error| CliError::Failed(format!("the server's answer is not understood: {error}")))
}

fn text(bytes: Bytes) -> Result<String, CliError> {
    String::from_utf8(bytes.into()).map_err(|_| CliError::Failed("the server's answer is not text".to_owned()))
}

async fn in_process(global: &Global) -> Result<Way, CliError> {
    let reached = database::reach(global).await?;
    let actor = format!("{}/{}", reached.user, system_user::name());
    let missing = reached.store.missing().await.map_err(super::migrate::failure)?;
    if !missing.is_empty() {
        return Err(CliError::Missing("the database's schema is not up to date; run: dlo migrate".to_owned()));
    }
    Ok(Way::InProcess(router(HttpState {
        store: reached.store,
        access: Access::Local { actor },
        clock: Clock::system(),
    })))
}

async fn call(router: Router, method: Method, place: &str, body: Option<String>) -> Result<(u16, Bytes), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(format!("the request failed: {error}"));
    let request = Request::builder().method(method).uri(place).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(body.unwrap_or_default())).map_err(|error| failed(&error))?;
    let response = router.oneshot(request).await.map_err(|error| failed(&error))?;
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), usize::MAX).await.map_err(|error| failed(&error))?;
    Ok((status, bytes))
}

fn network(server: &str) -> Result<Way, CliError> {
    let wrong = || {
        CliError::Usage(format!(
            "--server {server:?} is no address; write https://dlo.example.org or http://127.0.0.1:8390"
        ))
    };
    let base = Url::parse(server).map_err(|_| wrong())?;
    if !matches!(base.scheme(), "http" | "https") || !base.username().is_empty() || base.password().is_some() {
        return Err(if base.has_host() && matches!(base.scheme(), "http" | "https") {
            CliError::Usage("--server takes no user or password; the token comes from DLO_TOKEN".to_owned())
        } else {
            wrong()
        });
    }
    // Another part of the process may have chosen it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder()
        .connect_timeout(CONNECT_DEADLINE)
        .timeout(ANSWER_DEADLINE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("dlo/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| CliError::Failed(format!("no HTTP client: {error}")))?;
    let token = std::env::var("DLO_TOKEN").ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    Ok(Way::Network { http, base, token })
}

async fn fetch(
    http: &reqwest::Client,
    base: &Url,
    token: Option<&str>,
    (method, place, body): (Method, &str, Option<String>),
) -> Result<(u16, Bytes), CliError> {
    // A server may live below a path of its proxy.
    let url = format!("{}{place}", base.as_str().trim_end_matches('/'));
    let mut request = http.request(method, url).header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let unreachable = |error: reqwest::Error| {
        // The last cause says it in the system's words: connection refused, name not known.
        let error = error.without_url();
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let why = causes.last().map(ToString::to_string).unwrap_or_default();
        CliError::Unreachable(format!("{}: {why}", base.origin().ascii_serialization()))
    };
    let response = request.body(body.unwrap_or_default()).send().await.map_err(unreachable)?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await.map_err(unreachable)?))
}

/// A problem as an exit code: who asks wrongly, what is not there, what does not answer, what failed.
fn refused(status: u16, body: &[u8]) -> CliError {
    let detail = serde_json::from_slice::<Problem>(body).map(|problem| problem.detail);
    let detail = detail.unwrap_or_else(|_| format!("the server answers {status} without a reason; is --server right?"));
    match status {
        400 | 415 => CliError::Usage(detail),
        404 => CliError::Missing(detail),
        502..=504 => CliError::Unreachable(detail),
        _ => CliError::Failed(detail),
    }
}
