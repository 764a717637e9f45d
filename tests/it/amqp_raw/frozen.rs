//! A link that carries nothing any more and does not say so, by Toxiproxy.

use std::time::{Duration, Instant};

use dead_letter_office::amqp::raw::RawError;
use dead_letter_office::message::Headers;
use serde_json::{Value, json};

use super::broker::{Broker, WITHIN, connect, name, prefetch};

struct Proxy {
    url: String,
    http: reqwest::Client,
    port: u16,
}

impl Proxy {
    async fn to(broker: &Broker) -> Self {
        let base = std::env::var("DLO_TEST_TOXIPROXY_URL").unwrap_or_else(|_| "http://127.0.0.1:26474".to_owned());
        // Once in a process; another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let (name, address) = (name("proxy"), broker.address());
        let upstream = format!("{}:{}", address.host, address.port);
        let proxy = json!({ "name": name, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true });
        let made = http.post(format!("{base}/proxies")).json(&proxy).send().await.expect("Toxiproxy is up");
        let made: Value = made.error_for_status().expect("made").json().await.expect("JSON");
        let port = made["listen"].as_str().and_then(|listen| listen.rsplit_once(':')?.1.parse().ok());
        Self { url: format!("{base}/proxies/{name}"), http, port: port.expect("a port") }
    }

    /// Nothing comes from the broker any more, and nobody hangs up. What we say still arrives: a broker that missed our
    /// heartbeats would hang up at about the same time as we give up.
    async fn freeze(&self) {
        let toxic = json!({ "type": "timeout", "stream": "downstream", "attributes": { "timeout": 0 } });
        let added = self.http.post(format!("{}/toxics", self.url)).json(&toxic).send().await.expect("Toxiproxy is up");
        added.error_for_status().expect("added");
    }

    async fn remove(self) {
        let _ = self.http.delete(&self.url).send().await;
    }
}

/// Waits on purpose: silence is what is tested.
pub(super) async fn heartbeats(broker: &Broker) {
    let proxy = Proxy::to(broker).await;
    let mut address = broker.address();
    address.port = proxy.port;
    address.heartbeat_s = Some(2);
    let queue = broker.queue("q").await;
    let connection = connect(&address).await.expect("connects");
    let channel = connection.open_channel(WITHIN).await.expect("a channel");
    let mut consumer = channel.consume(&queue, prefetch(5), &Headers::new(), WITHIN).await.expect("consumes");
    assert_eq!(consumer.recv(Duration::from_secs(5)).await.expect("heartbeats keep it"), None);

    proxy.freeze().await;
    let since = Instant::now();
    let (ended, pinged) = tokio::join!(consumer.next(), channel.ping(WITHIN));
    let silence = since.elapsed().as_secs_f64();
    assert!(matches!(ended, Err(RawError::HeartbeatMissed(4))), "{ended:?}");
    assert!(matches!(pinged, Err(RawError::HeartbeatMissed(4))), "{pinged:?}");
    // Counted from its last word, which may be a heartbeat ago. To the second: `a_silent_peer_is_given_two_heartbeats`.
    assert!((1.0..20.0).contains(&silence), "after {silence} s");
    assert!(!connection.is_open());
    proxy.remove().await;
}
