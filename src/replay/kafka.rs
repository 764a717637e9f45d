//! Publishing to Kafka: by an idempotent producer, all replicas, one delivery report a record.

mod partition;
mod report;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode as Code},
    producer::{Producer, ThreadedProducer},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use self::report::{Delivered, Reports};
use super::{Confirmed, Look, Patience, PublishError, Publisher};
use crate::{
    dialect::{Place, Publish},
    kafka::{
        client::Cluster,
        native::{self, Outgoing},
    },
};

type Client = ThreadedProducer<Reports>;

/// For a broker to answer a question.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// How long what is known of a topic is believed.
const TOPIC_KNOWN: Duration = Duration::from_secs(10);

/// A [`Publisher`] for one Kafka cluster.
#[derive(Debug)]
pub struct KafkaPublisher {
    cluster: Cluster,
    /// What librdkafka could not deliver by then it gives up.
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<Arc<Client>>,
    /// Numbers of partitions.
    topics: HashMap<String, (Instant, i32)>,
    /// Whether the cluster answered when it was last asked.
    is_there: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("topics", &self.topics).field("is_there", &self.is_there).finish_non_exhaustive()
    }
}

impl KafkaPublisher {
    /// `lease` is how long an attempt may take in all.
    #[must_use]
    pub fn new(cluster: Cluster, lease: Duration) -> Self {
        // A message begins in the first half of a lease and has its answer by the third quarter.
        let timeout = (lease / 4).max(Duration::from_secs(1));
        Self { cluster, timeout, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> Result<Arc<Client>, String> {
        let mut state = self.state();
        if let Some(client) = state.client.as_ref().filter(|client| client.client().fatal_error().is_none()) {
            return Ok(Arc::clone(client));
        }
        let client: Client = self.config().create_with_context(Reports).map_err(|error| error.to_string())?;
        let client = Arc::new(client);
        state.client = Some(Arc::clone(&client));
        Ok(client)
    }

    fn config(&self) -> ClientConfig {
        let mut config = self.cluster.client();
        let defaults = [
            // What Kafka's own limit is by default does not matter: the broker says what is too large.
            ("message.max.bytes", "1000000000"),
            ("queue.buffering.max.kbytes", "262144"),
            // A thousand attempts at most are under way; waiting gains nothing.
            ("linger.ms", "1"),
        ];
        for (name, value) in defaults {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        config.set("enable.idempotence", "true").set("acks", "all");
        config.set("message.timeout.ms", self.timeout.as_millis().to_string());
        config
    }

    /// How many partitions a topic has.
    async fn partitions(&self, topic: &str) -> Result<i32, PublishError> {
        if let Some((asked, count)) = self.state().topics.get(topic)
            && asked.elapsed() < TOPIC_KNOWN
        {
            return Ok(*count);
        }
        let client = self.client().map_err(PublishError::NotSent)?;
        let name = topic.to_owned();
        let asking = tokio::task::spawn_blocking(move || {
            let metadata = client.client().fetch_metadata(Some(&name), ANSWER_DEADLINE)?;
            let topic = metadata.topics().iter().find(|topic| topic.name() == name);
            Ok::<_, KafkaError>(topic.map(|topic| (topic.partitions().len(), topic.error().map(Code::from))))
        });
        let found = asking.await.map_err(|error| PublishError::NotSent(error.to_string()))?;
        match found.map_err(|error| PublishError::NotSent(error.to_string()))? {
            Some((count, None)) if count > 0 => {
                let count = i32::try_from(count).unwrap_or(i32::MAX);
                self.state().topics.insert(topic.to_owned(), (Instant::now(), count));
                Ok(count)
            }
            Some((_, Some(code))) if report::is_refusal(code) => {
                Err(PublishError::Refused(format!("topic {topic:?}: {code}")))
            }
            Some((_, Some(code))) => Err(PublishError::NotSent(format!("topic {topic:?}: {code}"))),
            Some(_) | None => Err(PublishError::Refused(format!("topic {topic:?} does not exist"))),
        }
    }

    /// A producer that has come to an end says why: mostly that it has no right to write anything at all.
    fn fatal(&self) -> Option<PublishError> {
        let state = self.state();
        let (code, why) = state.client.as_ref()?.client().fatal_error()?;
        Some(if report::is_refusal(code) { PublishError::Refused(why) } else { PublishError::NotSent(why) })
    }

    async fn send(&self, publish: &Publish, patience: &Patience) -> Result<oneshot::Receiver<Delivered>, PublishError> {
        let Place::Topic { topic, partition } = &publish.place else {
            return Err(PublishError::Refused("an exchange is not a place of a Kafka cluster".to_owned()));
        };
        let Some(topic) = topic.as_str() else {
            return Err(PublishError::Refused("the topic's name is no text".to_owned()));
        };
        let message = &publish.message;
        let partitions = self.partitions(topic).await?;
        let outgoing = Outgoing {
            topic,
            partition: partition::choose(message.key.as_deref(), *partition, partitions),
            key: message.key.as_deref(),
            value: message.body.as_deref(),
            headers: &message.headers,
            millis: message.properties.kafka().and_then(|p| p.timestamp).map(crate::message::RecordTime::millis),
        };
        let client = self.client().map_err(PublishError::NotSent)?;
        let (tell, told) = oneshot::channel();
        let mut tell = Box::new(tell);
        loop {
            if Instant::now() >= patience.begin_by || patience.last_call.is_cancelled() {
                return Err(PublishError::NotSent("its turn did not come in time".to_owned()));
            }
            match native::produce(client.client(), &outgoing, tell) {
                Ok(()) => return Ok(told),
                Err((Code::QueueFull, back)) => {
                    tell = back;
                    sleep(Duration::from_millis(10)).await;
                }
                Err((code, _)) if report::is_refusal(code) => {
                    return Err(PublishError::Refused(format!("topic {topic:?}: {code}")));
                }
                Err((code, _)) => return Err(self.fatal().unwrap_or(PublishError::NotSent(code.to_string()))),
            }
        }
    }
}

#[async_trait]
impl Publisher for KafkaPublisher {
    async fn ready(&self, look: Look) -> Result<(), String> {
        if look == Look::Glance {
            return if self.state().is_there { Ok(()) } else { Err("not asked yet".to_owned()) };
        }
        let client = self.client()?;
        let asking = tokio::task::spawn_blocking(move || {
            client
                .client()
                .fetch_cluster_id(ANSWER_DEADLINE)
                .ok_or_else(|| "no broker of the cluster answers".to_owned())
        });
        let answer = asking.await.map_err(|error| error.to_string())?.map(drop);
        self.state().is_there = answer.is_ok();
        answer
    }

    async fn publish(&self, publish: &Publish, patience: &Patience) -> Result<Confirmed, PublishError> {
        let told = match self.send(publish, patience).await {
            Ok(told) => told,
            Err(error) => {
                if matches!(error, PublishError::NotSent(_)) {
                    self.state().is_there = false;
                }
                return Err(error);
            }
        };
        let answer = async {
            tokio::select! {
                answer = told => answer.ok(),
                () = patience.last_call.cancelled() => None,
            }
        };
        let Ok(Some(delivered)) = timeout_at(patience.until, answer).await else {
            return Err(PublishError::InDoubt("no delivery report in time".to_owned()));
        };
        match delivered.outcome() {
            Ok(()) => Ok(Confirmed::new()),
            Err(error) => {
                let fatal = if matches!(error, PublishError::NotSent(_)) { self.fatal() } else { None };
                let error = fatal.unwrap_or(error);
                if let Place::Topic { topic, .. } = &publish.place {
                    // What was known of it may be why.
                    self.state().topics.remove(topic.as_str().unwrap_or_default());
                }
                if matches!(error, PublishError::NotSent(_)) {
                    self.state().is_there = false;
                }
                Err(error)
            }
        }
    }

    async fn close(&self) {
        let Some(client) = self.state().client.take() else { return };
        let flushing = tokio::task::spawn_blocking(move || {
            let _ = client.flush(Duration::from_secs(2));
        });
        let _ = flushing.await;
    }
}
