//! How many messages wait in a queue, asked over a connection of its own: true also while the consumer is stuck.

use std::{sync::Arc, time::Duration};

use lapin::{options::QueueDeclareOptions, types::FieldTable};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::{amqp::connection::Broker, metrics::SourceMetrics};

const EVERY: Duration = Duration::from_secs(5);

/// A queue whose lag is watched.
#[derive(Debug)]
pub struct Watched {
    pub queue: String,
    pub metrics: SourceMetrics,
}

/// Watches queues of one broker until told to stop. An answer that cannot be had changes nothing: the last one stands.
pub async fn watch(broker: Arc<Broker>, queues: Vec<Watched>, stop: CancellationToken) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        for watched in &queues {
            match timeout(EVERY, ready(&broker, &watched.queue)).await {
                Ok(Ok(ready)) => watched.metrics.lag(&watched.queue, u64::from(ready) + watched.metrics.held(), None),
                Ok(Err(error)) => tracing::debug!(queue = watched.queue, error, "lag not known"),
                Err(_) => tracing::debug!(queue = watched.queue, "lag not known: no answer"),
            }
        }
    }
    broker.close().await;
}

/// Messages that wait to be delivered. On a channel of its own, which a missing queue costs.
async fn ready(broker: &Broker, queue: &str) -> Result<u32, String> {
    let channel = broker.channel().await.map_err(|error| error.to_string())?;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
    let _ = channel.close(200, "asked".into()).await;
    declared.map(|queue| queue.message_count()).map_err(|error| error.to_string())
}
