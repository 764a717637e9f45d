//! Payments on Kafka, from topic `payments`. Payouts cannot pay a seller whose account is closed, and for instant payments
//! it needs the payment gateway. It does as Spring Kafka's `DeadLetterPublishingRecoverer` does: what failed is published
//! to `payments-dlt`, same key, value and partition, with where it was read and the exception in headers.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, bail};
use rdkafka::{
    ClientConfig, Message,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{Consumer, StreamConsumer},
    error::KafkaError,
    message::{BorrowedMessage, Header, OwnedHeaders, Timestamp},
    producer::{FutureProducer, FutureRecord},
    types::RDKafkaErrorCode,
};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::{Done, Failure, Gateway, Until, tenant};

const TOPIC: &str = "payments";
const DEAD: &str = "payments-dlt";
const GROUP: &str = "payouts";
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Payments {
    config: ClientConfig,
    producer: FutureProducer,
}

impl Payments {
    pub(super) fn connect(brokers: &str) -> anyhow::Result<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        let producer = config
            .clone()
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random") // as in Java
            .set("linger.ms", "0")
            .create()?;
        Ok(Self { config, producer })
    }

    pub(super) async fn make_topics_anew(&self) -> anyhow::Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        for deleted in admin.delete_topics(&[TOPIC, DEAD], &options).await.context("Kafka")? {
            match deleted {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((topic, why)) => bail!("topic {topic} cannot be deleted: {why}"),
            }
        }
        for topic in [TOPIC, DEAD] {
            make_topic(&admin, topic, &options).await?;
        }
        Ok(())
    }

    pub(super) async fn publish(&self, number: u32) -> anyhow::Result<()> {
        let payment = payment(number);
        let body = serde_json::to_vec(&payment)?;
        let headers = OwnedHeaders::new().insert(Header { key: "tenant", value: Some(tenant(number)) });
        let key = payment["seller"].as_str().unwrap_or_default();
        self.send(FutureRecord::to(TOPIC).key(key.as_bytes()).payload(body.as_slice()).headers(headers)).await
    }

    /// Pays out what there is; one consumer of the group has all partitions.
    pub(super) async fn work(&self, gateway: impl Fn() -> Gateway, until: Until) -> anyhow::Result<Done> {
        let consumer: StreamConsumer = self
            .config
            .clone()
            .set("group.id", GROUP)
            .set("auto.offset.reset", "earliest")
            // The offset of what was handled is committed from time to time, and when the consumer is dropped.
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            // One that was killed does not keep the next from its partitions for long.
            .set("session.timeout.ms", "6000")
            .create()?;
        consumer.subscribe(&[TOPIC])?;
        let mut done = Done::default();
        let mut at_end = BTreeSet::new();
        while until == Until::Stopped || at_end.len() < PARTITIONS as usize {
            let record = match consumer.recv().await {
                Ok(record) => record,
                Err(KafkaError::PartitionEOF(partition)) => {
                    at_end.insert(partition);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            at_end.remove(&record.partition());
            let payment: Json = serde_json::from_slice(record.payload().unwrap_or_default()).unwrap_or_default();
            let id = payment["payment_id"].as_str().unwrap_or("?").to_owned();
            match pay_out(&payment, gateway()) {
                Ok(()) => done.handled.push(id),
                Err(failure) => {
                    let place = format!("{id} {}-{}@{}", record.topic(), record.partition(), record.offset());
                    eprintln!("{GROUP}: {place} failed: {}", failure.message);
                    self.give_up(&record, &failure).await?;
                    done.failed.push(place);
                }
            }
            consumer.store_offset_from_message(&record)?;
        }
        Ok(done)
    }

    async fn give_up(&self, record: &BorrowedMessage<'_>, failure: &Failure) -> anyhow::Result<()> {
        let message = format!(
            "Listener method 'public void shop.payouts.Payouts.pay(shop.payouts.Payment)' threw exception; {}",
            failure.message
        );
        let outer = "org.springframework.kafka.listener.ListenerExecutionFailedException";
        let trace = failure.stack_trace(
            &format!("{outer}: {message}"),
            "org.springframework.kafka.listener.KafkaMessageListenerContainer.invoke(KafkaMessageListenerContainer.java:1)",
        );
        let (time, clock) = match record.timestamp() {
            Timestamp::NotAvailable => (-1, "NoTimestampType"),
            Timestamp::CreateTime(time) => (time, "CreateTime"),
            Timestamp::LogAppendTime(time) => (time, "LogAppendTime"),
        };
        // Numbers are big-endian.
        let told: [(&str, &[u8]); 10] = [
            ("kafka_dlt-exception-fqcn", outer.as_bytes()),
            ("kafka_dlt-exception-cause-fqcn", failure.class.as_bytes()),
            ("kafka_dlt-exception-message", message.as_bytes()),
            ("kafka_dlt-exception-stacktrace", trace.as_bytes()),
            ("kafka_dlt-original-topic", record.topic().as_bytes()),
            ("kafka_dlt-original-partition", &record.partition().to_be_bytes()),
            ("kafka_dlt-original-offset", &record.offset().to_be_bytes()),
            ("kafka_dlt-original-timestamp", &time.to_be_bytes()),
            ("kafka_dlt-original-timestamp-type", clock.as_bytes()),
            ("kafka_dlt-original-consumer-group", GROUP.as_bytes()),
        ];
        let own = record.headers().map_or_else(OwnedHeaders::new, |headers| headers.detach());
        let headers =
            told.into_iter().fold(own, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let mut dead = FutureRecord::to(DEAD).partition(record.partition()).headers(headers);
        dead.key = record.key();
        dead.payload = record.payload();
        self.send(dead).await
    }

    async fn send(&self, record: FutureRecord<'_, [u8], [u8]>) -> anyhow::Result<()> {
        self.producer.send(record, PATIENCE).await.map_err(|(error, _)| error).context("Kafka")?;
        Ok(())
    }
}

/// A name is free only once its last topic is gone for good, which the broker does not wait for.
async fn make_topic(
    admin: &AdminClient<DefaultClientContext>,
    name: &str,
    options: &AdminOptions,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let made = admin.create_topics(&[NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))], options).await?;
        match made.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) if Instant::now() < deadline => {
                sleep(Duration::from_millis(100)).await;
            }
            Some(Err((_, why))) => bail!("topic {name} cannot be made: {why}"),
            _ => return Ok(()),
        }
    }
}

/// The payment for order `number`: there are twelve sellers, the account of S-00 is closed, every fifth is instant.
fn payment(number: u32) -> Json {
    json!({
        "payment_id": format!("P-{number:04}"),
        "order_id": format!("A-{number:04}"),
        "seller": format!("S-{:02}", number % 12),
        "instant": number.is_multiple_of(5),
        "amount": format!("{}.50", 10 + number % 90),
    })
}

fn pay_out(payment: &Json, gateway: Gateway) -> Result<(), Failure> {
    if payment["seller"] == "S-00" {
        return Err(Failure {
            class: "shop.payouts.AccountClosedException",
            message: "the account of S-00 is closed".to_owned(),
            place: "shop.payouts.Accounts.credit(Accounts.java:41)",
        });
    }
    if payment["instant"] == true && gateway == Gateway::Down {
        return Err(Failure {
            class: "shop.payouts.GatewayDownException",
            message: "payment gateway is down".to_owned(),
            place: "shop.payouts.Gateway.transfer(Gateway.java:77)",
        });
    }
    Ok(())
}
