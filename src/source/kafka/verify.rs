//! A record is only believed when its topic was still the same after it had come.
//!
//! Offsets of a topic that was deleted and made anew begin again, and a consumer that reads on at its old offset is told
//! nothing: librdkafka asks by name. So records wait in the buffer until the broker, asked after they came, names the
//! topic's id that their position belongs to. One question covers all that came before it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use uuid::Uuid;

use super::{
    broker::{self, Client},
    shared::Shared,
};
use crate::metrics::SourceMetrics;

/// Between two questions: under load one is enough for thousands of records.
const PAUSE: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_millis(200);

pub(super) struct Verifier {
    pub(super) source: String,
    pub(super) client: Arc<Client>,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: SourceMetrics,
}

impl Verifier {
    /// Until it is dropped.
    pub(super) async fn run(self) {
        loop {
            // Registered before looking, or what comes in between would wait for what comes after it.
            let came = self.shared.came.notified();
            let Some((last, topics)) = self.shared.unverified() else {
                came.await;
                continue;
            };
            match self.ids(topics).await {
                Ok(ids) => {
                    self.shared.verified(last, &ids);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(why) => {
                    tracing::debug!(source = self.source, why, "the ids of topics are not known");
                    self.metrics.down(why);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn ids(&self, topics: HashSet<Arc<str>>) -> Result<HashMap<String, Uuid>, String> {
        let client = Arc::clone(&self.client);
        let asking = tokio::task::spawn_blocking(move || {
            let topics: HashSet<&str> = topics.iter().map(|topic| &**topic).collect();
            broker::topic_ids(&client, &topics)
        });
        asking.await.map_err(|error| error.to_string())?
    }
}
