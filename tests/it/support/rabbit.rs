//! A broker with queues of one test, gone with it.

use std::{num::NonZeroU16, sync::Mutex, time::Duration};

use dead_letter_office::{
    amqp::{
        convert,
        raw::{ConnectOptions, PublishOutcome, RawChannel, RawConnection, RawDelivery},
        uri::BrokerAddress,
    },
    message::{Headers, RawMessage, Text},
    source::rabbitmq::topology::QueueType,
};
use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    options::{
        BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};

use super::{SOON, clean_up, eventually, management::Management, services::BrokerUrls, unique};

/// Confirms that may be outstanding.
const PUBLISH_WINDOW: usize = 200;

pub(crate) struct Rabbit {
    pub(crate) urls: BrokerUrls,
    pub(crate) management: Management,
    channel: Channel,
    connection: Connection,
    /// What is deleted at the end: queues and exchanges.
    litter: Mutex<Vec<String>>,
}

impl Rabbit {
    /// The broker of the run.
    pub(crate) async fn connect() -> Self {
        Self::at(super::services::rabbitmq()).await
    }

    pub(crate) async fn at(urls: BrokerUrls) -> Self {
        let connection = eventually("RabbitMQ answers", SOON, async || {
            Connection::connect(&urls.amqp, ConnectionProperties::default()).await.ok()
        })
        .await;
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let management = Management::new(&urls.management);
        Self { urls, management, channel, connection, litter: Mutex::default() }
    }

    pub(crate) fn address(&self) -> BrokerAddress {
        self.urls.amqp.parse().expect("an address")
    }

    /// Where the broker is, for a link in front of it.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.address().host, self.address().port)
    }

    /// A name for a queue that is deleted at the end, whoever declares it.
    pub(crate) fn queue_name(&self) -> String {
        let name = unique("q");
        self.litter.lock().expect("not poisoned").push(format!("queues/%2f/{name}"));
        name
    }

    /// Something of the management API that goes at the end.
    pub(crate) fn delete_at_end(&self, path: String) {
        self.litter.lock().expect("not poisoned").push(path);
    }

    pub(crate) fn exchange_name(&self) -> String {
        let name = unique("x");
        self.litter.lock().expect("not poisoned").push(format!("exchanges/%2f/{name}"));
        name
    }

    /// A user who may do everything, gone at the end.
    pub(crate) async fn user(&self, password: &str) -> String {
        self.user_who_may(password, [".*", ".*", ".*"]).await
    }

    /// A user with rights to configure, write and read what matches, gone at the end.
    pub(crate) async fn user_who_may(&self, password: &str, [configure, write, read]: [&str; 3]) -> String {
        let name = unique("user");
        self.litter.lock().expect("not poisoned").push(format!("users/{name}"));
        let user = serde_json::json!({ "password": password, "tags": "" });
        self.management.put(&format!("users/{name}"), &user).await;
        let rights = serde_json::json!({ "configure": configure, "write": write, "read": read });
        self.management.put(&format!("permissions/%2f/{name}"), &rights).await;
        name
    }

    pub(crate) async fn queue(&self, queue_type: QueueType) -> String {
        self.queue_with(queue_type, []).await
    }

    pub(crate) async fn queue_with<const N: usize>(
        &self,
        queue_type: QueueType,
        arguments: [(&str, AMQPValue); N],
    ) -> String {
        let name = self.queue_name();
        self.declare(&name, queue_type, arguments).await;
        name
    }

    pub(crate) async fn declare<const N: usize>(
        &self,
        name: &str,
        queue_type: QueueType,
        arguments: [(&str, AMQPValue); N],
    ) {
        let kind = match queue_type {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        };
        self.declare_kind(name, kind, arguments).await;
    }

    pub(crate) async fn declare_kind<'a>(
        &self,
        name: &str,
        kind: &str,
        extra: impl IntoIterator<Item = (&'a str, AMQPValue)>,
    ) {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), string(kind));
        if kind == "quorum" {
            // What brokers do by themselves to messages that come back often is not what is tested.
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(2_000_000_000));
        }
        for (name, value) in extra {
            arguments.insert(name.into(), value);
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.into(), durable, arguments).await.expect("declared");
    }

    pub(crate) async fn exchange(&self, kind: ExchangeKind) -> String {
        let name = self.exchange_name();
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        self.channel
            .exchange_declare(name.as_str().into(), kind, durable, FieldTable::default())
            .await
            .expect("declared");
        name
    }

    /// Takes `count` messages, as a plain consumer does, and no more.
    pub(crate) async fn take(&self, queue: &str, count: usize) -> Vec<RawDelivery> {
        let (_connection, channel) = self.raw().await;
        let prefetch = NonZeroU16::new(500).expect("not zero");
        let mut consumer = channel.consume(queue, prefetch, &Headers::new(), SOON).await.expect("consumes");
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let delivery = consumer.recv(SOON).await.expect("open");
            let delivery = delivery.unwrap_or_else(|| panic!("{} of {count} messages", taken.len()));
            channel.ack(delivery.tag, SOON).await.expect("acked");
            taken.push(delivery);
        }
        channel.ping(SOON).await.expect("acks arrived");
        taken
    }

    pub(crate) async fn unbind(&self, queue: &str, exchange: &str, key: &str) {
        let none = FieldTable::default();
        self.channel.queue_unbind(queue.into(), exchange.into(), key.into(), none).await.expect("unbound");
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let none = FieldTable::default();
        self.channel
            .queue_bind(queue.into(), exchange.into(), key.into(), QueueBindOptions::default(), none)
            .await
            .expect("bound");
    }

    /// Publishes and waits for every confirm. Messages have to be such that lapin can hold them.
    pub(crate) async fn publish(&self, exchange: &str, key: &str, messages: &[RawMessage]) {
        for window in messages.chunks(PUBLISH_WINDOW) {
            let mut confirms = Vec::with_capacity(window.len());
            for message in window {
                let properties = convert::to_lapin(message).expect("lapin can hold it");
                let body = message.body.as_deref().unwrap_or_default();
                let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let sent = self.channel.basic_publish(exchange.into(), key.into(), mandatory, body, properties).await;
                confirms.push(sent.expect("published"));
            }
            for confirm in confirms {
                let confirmation = confirm.await.expect("confirmed");
                assert!(confirmation.is_ack() && confirmation.take_message().is_none(), "not routed");
            }
        }
    }

    pub(crate) async fn publish_to(&self, queue: &str, messages: &[RawMessage]) {
        self.publish("", queue, messages).await;
    }

    /// A connection and a channel on it that hold whatever a broker delivers.
    pub(crate) async fn raw(&self) -> (RawConnection, RawChannel) {
        let options = ConnectOptions { connection_name: "dlo it raw".into(), ..Default::default() };
        let connection = RawConnection::connect(&self.address(), &options, SOON).await.expect("connects");
        let channel = connection.open_channel(SOON).await.expect("a channel");
        (connection, channel)
    }

    /// Publishes what lapin cannot hold.
    pub(crate) async fn publish_raw(&self, exchange: &str, key: Text, messages: &[RawMessage]) {
        let (_connection, client) = self.raw().await;
        for message in messages {
            let outcome = client.publish(&exchange.into(), &key, message, SOON).await.expect("published");
            assert_eq!(outcome, PublishOutcome::Routed);
        }
    }

    /// Takes a message as a consumer does, and refuses it: it dies.
    pub(crate) async fn reject_one(&self, queue: &str) {
        let got = eventually("a message to reject", SOON, async || {
            self.channel.basic_get(queue.into(), Default::default()).await.expect("gets")
        })
        .await;
        got.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.expect("rejected");
    }

    /// Messages that nobody has, by a question and not by statistics that lag.
    pub(crate) async fn ready(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.channel
            .queue_declare(queue.into(), passive, FieldTable::default())
            .await
            .expect("the queue is there")
            .message_count()
    }

    pub(crate) async fn wait_for_ready(&self, queue: &str, expected: u32) {
        eventually(&format!("{expected} ready messages"), SOON, async || {
            (self.ready(queue).await == expected).then_some(())
        })
        .await;
    }

    /// Waits until the queue holds nothing. For when nobody consumes from it any more: what was given out and not
    /// acked comes back a moment after its connection has ended, so the queue has to stay empty for longer than that.
    pub(crate) async fn wait_for_empty(&self, queue: &str) {
        let mut empty = 0;
        eventually(&format!("{queue} is empty"), SOON, async || {
            empty = if self.ready(queue).await == 0 { empty + 1 } else { 0 };
            (empty >= 40).then_some(())
        })
        .await;
    }

    pub(crate) async fn lapin(&self) -> Connection {
        Connection::connect(&self.urls.amqp, ConnectionProperties::default()).await.expect("connects")
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        let litter = std::mem::take(&mut *self.litter.lock().expect("not poisoned"));
        let url = self.urls.management.clone();
        let _ = &self.connection;
        clean_up(async move {
            // Connections do not outlive the runtime they were made on.
            let management = Management::new(&url);
            for path in litter {
                management.delete(&path).await;
            }
        });
    }
}

pub(crate) fn string(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// A heartbeat short enough for a test to outlast it.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
