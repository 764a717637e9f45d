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
    /// Sends each record in a batch of its own.
    apart: Option<Arc<Client>>,
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

    fn client(&self, apart: bool) -> Result<Arc<Client>, String> {
        let mut state = self.state();
        let client = if apart { &mut state.apart } else { &mut state.client };
        if let Some(client) = client.as_ref().filter(|client| client.client().fatal_error().is_none()) {
            return Ok(Arc::clone(client));
        }
        let mut config = self.config();
        if apart {
            config.set("batch.num.messages", "1");
        }
        let made: Client = config.create_with_context(Reports).map_err(|error| error.to_string())?;
        Ok(Arc::clone(client.insert(Arc::new(made))))
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
        let client = self.client(false).map_err(PublishError::NotSent)?;
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

    /// Sends a record and waits for its report.
    async fn deliver(&self, publish: &Publish, patience: &Patience, apart: bool) -> Result<Delivered, PublishError> {
        let told = self.send(publish, patience, apart).await?;
        let answer = async {
            tokio::select! {
                answer = told => answer.ok(),
                () = patience.last_call.cancelled() => None,
            }
        };
        let in_doubt = || PublishError::InDoubt("no delivery report in time".to_owned());
        timeout_at(patience.until, answer).await.ok().flatten().ok_or_else(in_doubt)
    }

    async fn send(
        &self,
        publish: &Publish,
        patience: &Patience,
        apart: bool,
    ) -> Result<oneshot::Receiver<Delivered>, PublishError> {
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
        let client = self.client(apart).map_err(PublishError::NotSent)?;
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
        let client = self.client(false)?;
        let asking = tokio::task::spawn_blocking(move || {
            // Asked for and not remembered, as the cluster's id is.
            client.client().fetch_metadata(None, ANSWER_DEADLINE).map(drop).map_err(|error| error.to_string())
        });
        let answer = asking.await.map_err(|error| error.to_string())?;
        self.state().is_there = answer.is_ok();
        answer
    }

    async fn publish(&self, publish: &Publish, patience: &Patience) -> Result<Confirmed, PublishError> {
        let outcome = match self.deliver(publish, patience, false).await {
            // Brokers take a batch or refuse it whole: alone it is told for certain.
            Ok(delivered) if delivered.may_be_anothers() => self.deliver(publish, patience, true).await,
            outcome => outcome,
        };
        match outcome.and_then(Delivered::outcome) {
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
        let clients = {
            let mut state = self.state();
            [state.client.take(), state.apart.take()]
        };
        let flushing = tokio::task::spawn_blocking(move || {
            for client in clients.into_iter().flatten() {
                let _ = client.flush(Duration::from_secs(2));
            }
        });
        let _ = flushing.await;
    }
}
