//! The real router over a database of its own.

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use serde_json::Value as Json;
use tower::ServiceExt;

use super::{Access, HttpState, router};
use crate::{clock::Clock, store::testing::TestDb};

pub(super) struct Api {
    pub(super) db: TestDb,
    router: Router,
    token: Option<String>,
}

/// An answer, read to its end.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON: {:?}", self.body))
    }

    /// A problem's status, last word of its type, and detail.
    pub(super) fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{:?}", self.body);
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        let word = |name: &str| json[name].as_str().expect("text").to_owned();
        (self.status.as_u16(), word("type").replace("urn:dlo:", ""), word("detail"))
    }
}

impl Api {
    /// As the command line has it.
    pub(super) async fn local() -> Self {
        Self::with(Access::Local { actor: "dlo/tester".to_owned() }).await
    }

    pub(super) async fn with(access: Access) -> Self {
        let db = TestDb::new().await;
        let router = router(HttpState { store: db.store.clone(), access, clock: Clock::system() });
        Self { db, router, token: None }
    }

    /// The same with another token.
    pub(super) fn bearing(&mut self, token: Option<&str>) -> &Self {
        self.token = token.map(str::to_owned);
        self
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).body(Body::empty()).expect("a request")).await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path).body(Body::empty()).expect("a request")).await
    }

    pub(super) async fn post(&self, path: &str, body: &Json) -> Answer {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).expect("a request")).await
    }

    pub(super) fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let builder = Request::builder().method(method).uri(path).header("host", "localhost:8390");
        match &self.token {
            Some(token) => builder.header("authorization", format!("Bearer {token}")),
            None => builder,
        }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        Answer { status: parts.status, headers: parts.headers, body: to_bytes(body, usize::MAX).await.expect("a body") }
    }

    /// The audit trail as `actor action letters`.
    pub(super) async fn audit(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', actor, action, letters::text) FROM dlo_audit ORDER BY id";
        sqlx::query_scalar(sql).fetch_all(self.db.store.pool()).await.expect("the trail")
    }
}
