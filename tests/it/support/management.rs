//! RabbitMQ's management API.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use super::{SOON, eventually};

#[derive(Clone, Debug)]
pub(crate) struct Management {
    url: url::Url,
    client: reqwest::Client,
}

impl Management {
    pub(crate) fn new(url: &str) -> Self {
        // One provider for the process; whoever comes second finds it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().expect("a client");
        Self { url: url.parse().expect("a management address"), client }
    }

    fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let mut url = self.url.clone();
        let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
        let _ = (url.set_username(""), url.set_password(None));
        self.client.request(method, format!("{}api/{path}", url.as_str())).basic_auth(user, password)
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Json> {
        let answer = self.request(reqwest::Method::GET, path).send().await.expect("the management API answers");
        match answer.status().is_success() {
            true => Some(answer.json().await.expect("JSON")),
            false => None,
        }
    }

    pub(crate) async fn delete(&self, path: &str) -> bool {
        self.request(reqwest::Method::DELETE, path).send().await.is_ok_and(|answer| answer.status().is_success())
    }

    pub(crate) async fn put(&self, path: &str, body: &Json) {
        let answer = self.request(reqwest::Method::PUT, path).json(body).send().await.expect("answers");
        assert!(answer.status().is_success(), "PUT {path}: {}", answer.status());
    }

    pub(crate) async fn delete_queue(&self, queue: &str) -> bool {
        self.delete(&format!("queues/%2f/{}", encode(queue))).await
    }

    pub(crate) async fn queue(&self, queue: &str) -> Option<Json> {
        self.get(&format!("queues/%2f/{}", encode(queue))).await
    }

    /// Waits until the connection with that name is listed, and closes all that have it.
    pub(crate) async fn close_connections(&self, name: &str) {
        eventually(&format!("connection {name} is closed"), SOON, async || {
            let mut closed = false;
            for connection in self.named(name).await {
                closed |= self.delete(&format!("connections/{}", encode(&connection))).await;
            }
            closed.then_some(())
        })
        .await;
    }

    /// Waits until connections of that user are listed, and closes them all.
    pub(crate) async fn close_connections_of(&self, user: &str) {
        eventually(&format!("connections of {user} are closed"), SOON, async || {
            let all = self.get("connections").await.unwrap_or_default();
            let mut closed = false;
            for connection in all.as_array().into_iter().flatten().filter(|c| c["user"] == user) {
                let name = connection["name"].as_str().unwrap_or_default();
                closed |= self.delete(&format!("connections/{}", encode(name))).await;
            }
            closed.then_some(())
        })
        .await;
    }

    async fn named(&self, name: &str) -> Vec<String> {
        let all = self.get("connections").await.unwrap_or_default();
        let all = all.as_array().cloned().unwrap_or_default();
        all.iter()
            .filter(|c| c["client_properties"]["connection_name"] == name)
            .filter_map(|c| Some(c["name"].as_str()?.to_owned()))
            .collect()
    }
}

pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
