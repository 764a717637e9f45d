//! A broker to test against, and what tests need in it.

use std::num::NonZeroU16;
use std::time::Duration;

use dead_letter_office::amqp::raw::{ConnectOptions, PublishOutcome, RawChannel, RawConnection, RawError};
use dead_letter_office::amqp::uri::BrokerAddress;
use dead_letter_office::message::{AmqpProperties, RawMessage, Text, Value};
use lapin::options::{
    BasicRejectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};

/// Longer than anything takes on a machine that is busy with other things.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct Broker {
    /// Of RabbitMQ: 3 or 4.
    pub(crate) major: u8,
    url: String,
    /// For what surrounds a test: queues, exchanges, messages lapin can hold.
    admin: Channel,
    _connection: Connection,
}

/// A name that no other test has, which goes away by itself if the test does not come to its end.
pub(crate) fn name(what: &str) -> String {
    format!("dlo-it-{what}-{}", uuid::Uuid::new_v4())
}

pub(crate) fn prefetch(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).expect("not zero")
}

impl Broker {
    /// RabbitMQ 3, which must be there, if not yet.
    pub(crate) async fn three() -> Self {
        let url = env("DLO_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:23672/%2f");
        let mut pause = tokio::time::interval(Duration::from_millis(500));
        tokio::time::timeout(Duration::from_secs(120), async {
            loop {
                pause.tick().await;
                if let Ok(broker) = Self::connect(3, &url).await {
                    return broker;
                }
            }
        })
        .await
        .expect("RabbitMQ comes up")
    }

    /// RabbitMQ 4, where it is up.
    pub(crate) async fn four() -> Option<Self> {
        Self::connect(4, &env("DLO_TEST_RABBITMQ4_URL", "amqp://guest:guest@127.0.0.1:24672/%2f")).await.ok()
    }

    async fn connect(major: u8, url: &str) -> lapin::Result<Self> {
        let connection = lapin(url).await?;
        let admin = connection.create_channel().await?;
        Ok(Self { major, url: url.to_owned(), admin, _connection: connection })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn address(&self) -> BrokerAddress {
        self.url.parse().expect("an address")
    }

    /// A channel on a connection of its own.
    pub(crate) async fn raw(&self) -> RawChannel {
        self.raw_to(&self.address()).await.expect("connects")
    }

    pub(crate) async fn raw_to(&self, address: &BrokerAddress) -> Result<RawChannel, RawError> {
        connect(address).await?.open_channel(WITHIN).await
    }

    pub(crate) async fn raw_connection(&self) -> RawConnection {
        connect(&self.address()).await.expect("connects")
    }

    /// Another lapin connection, that may break.
    pub(crate) async fn lapin(&self) -> Connection {
        lapin(&self.url).await.expect("connects")
    }

    /// A queue of the test's own.
    pub(crate) async fn queue(&self, what: &str) -> String {
        self.queue_with(name(what), FieldTable::default()).await
    }

    /// Goes away when nobody has used it for a minute: exclusive queues are hidden from other connections.
    async fn queue_with(&self, name: String, mut arguments: FieldTable) -> String {
        arguments.insert("x-expires".into(), AMQPValue::LongInt(60_000));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        self.admin.queue_declare(name.as_str().into(), options, arguments).await.expect("declared");
        name
    }

    pub(crate) async fn delete_queue(&self, queue: &str) {
        self.admin.queue_delete(queue.into(), QueueDeleteOptions::default()).await.expect("deleted");
    }

    /// An exchange that takes any routing key to the queue, and goes away with it.
    pub(crate) async fn fanout_to(&self, queue: &str) -> String {
        let exchange = name("fanout");
        let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
        let declared =
            self.admin.exchange_declare(exchange.as_str().into(), ExchangeKind::Fanout, options, FieldTable::default());
        declared.await.expect("declared");
        let bound = self.admin.queue_bind(
            queue.into(),
            exchange.as_str().into(),
            "".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.expect("bound");
        exchange
    }

    /// A queue, and the one its dead letters go to. Their names are as long as names can be.
    pub(crate) async fn dead_letter_queues(&self) -> (String, String) {
        let dead = self.queue(&"d".repeat(200)).await;
        let text = |text: &str| AMQPValue::LongString(LongString::from(text));
        let mut arguments = FieldTable::default();
        arguments.insert("x-dead-letter-exchange".into(), text(""));
        arguments.insert("x-dead-letter-routing-key".into(), text(&dead));
        let live = self.queue_with(name(&"l".repeat(200)), arguments).await;
        (live, dead)
    }

    /// Publishes a message and lets it die.
    pub(crate) async fn kill(&self, live: &str, dead: &str, message: &RawMessage) {
        self.publish(live, message).await;
        self.reject_one(live).await;
        self.wait_for_messages(dead, 1).await;
    }

    /// A queue holding one dead letter whose headers no longer fit into a frame, and the header that fills it.
    pub(crate) async fn dead_letter_beyond_frame_max(&self) -> (String, Value) {
        let (live, dead) = self.dead_letter_queues().await;
        let large = Value::Bytes(vec![b'x'; 130_700]);
        let headers = [("large".into(), large.clone())].into_iter().collect();
        self.kill(&live, &dead, &RawMessage::amqp(AmqpProperties::default(), headers, "{}")).await;
        (dead, large)
    }

    async fn reject_one(&self, queue: &str) {
        let got = self.admin.basic_get(queue.into(), Default::default());
        let message = got.await.expect("gets").expect("a message");
        message.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.expect("rejected");
    }

    /// Asks until the queue holds that many messages that nobody has.
    pub(crate) async fn wait_for_messages(&self, queue: &str, expected: u32) {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        let client = self.raw().await;
        tokio::time::timeout(WITHIN, async {
            while client.message_count(queue, WITHIN).await.expect("counts") != expected {
                pause.tick().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{queue} never holds {expected} messages"));
    }

    /// Publishes by the raw client to a queue.
    pub(crate) async fn publish(&self, queue: &str, message: &RawMessage) {
        let client = self.raw().await;
        let published = client.publish(&Text::default(), &queue.into(), message, WITHIN).await.expect("published");
        assert_eq!(published, PublishOutcome::Routed);
    }
}

pub(crate) async fn connect(address: &BrokerAddress) -> Result<RawConnection, RawError> {
    let options = ConnectOptions { connection_name: "dlo it".into(), ..Default::default() };
    RawConnection::connect(address, &options, WITHIN).await
}

fn env(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

async fn lapin(url: &str) -> lapin::Result<Connection> {
    Connection::connect(url, ConnectionProperties::default()).await
}
