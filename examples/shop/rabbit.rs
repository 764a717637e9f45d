//! Orders on RabbitMQ. They are published to `shop.events`; billing takes them from its queue and rejects what it cannot
//! bill into the dead-letter exchange `dlo`: orders from a country without a tax rate fail for good, card payments fail
//! while the payment gateway is down. Shipping does as Spring AMQP's recoverer does: it publishes what failed to the same
//! exchange, with the exception in headers.

use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind,
    message::Delivery,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, BasicRejectOptions,
        ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use super::{Done, Failure, Gateway, Until, tenant};

pub(super) const BILLING: &str = "billing.orders";
pub(super) const SHIPPING: &str = "shipping.orders";
const EVENTS: &str = "shop.events";
const DEAD: &str = "dlo";
/// A queue that gives nothing for so long is empty.
const IDLE: Duration = Duration::from_secs(2);

pub(super) struct Orders {
    connection: Connection,
    channel: Channel,
}

impl Orders {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.context("RabbitMQ")?;
        let channel = connection.create_channel().await?;
        declare(&channel).await?;
        Ok(Self { connection, channel })
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        Ok(self.connection.close(200, "done".into()).await?)
    }

    pub(super) async fn publish(&self, number: u32) -> anyhow::Result<()> {
        let mut headers = FieldTable::default();
        headers.insert("tenant".into(), AMQPValue::LongString(tenant(number).into()));
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(2)
            .with_message_id(format!("order-{number}").into())
            .with_type("order.created".into())
            .with_headers(headers);
        let body = serde_json::to_vec(&order(number))?;
        self.channel
            .basic_publish(EVENTS.into(), "order.created".into(), BasicPublishOptions::default(), &body, properties)
            .await?
            .await?;
        Ok(())
    }

    pub(super) async fn work(&self, queue: &str, gateway: impl Fn() -> Gateway, until: Until) -> anyhow::Result<Done> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        channel.basic_qos(10, BasicQosOptions::default()).await?;
        let mut orders = channel
            .basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default())
            .await?;
        let mut done = Done::default();
        loop {
            let next = match until {
                Until::NothingLeft => timeout(IDLE, orders.next()).await.unwrap_or(None),
                Until::Stopped => orders.next().await,
            };
            let Some(delivery) = next.transpose()? else { return Ok(done) };
            let order: Json = serde_json::from_slice(&delivery.data).unwrap_or_default();
            let id = order["order_id"].as_str().unwrap_or("?").to_owned();
            match handle(queue, &order, gateway()) {
                Ok(()) => {
                    delivery.ack(BasicAckOptions::default()).await?;
                    done.handled.push(id);
                }
                Err(failure) => {
                    eprintln!("{queue}: {id} failed: {}", failure.message);
                    give_up(&channel, queue, &delivery, &failure).await?;
                    done.failed.push(id);
                }
            }
        }
    }
}

/// The shop's own topology. The dead-letter exchange is declared as `dlo` declares it, whoever comes first.
async fn declare(channel: &Channel) -> anyhow::Result<()> {
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    for exchange in [EVENTS, DEAD] {
        channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
    }
    for queue in [BILLING, SHIPPING] {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        if queue == BILLING {
            arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString(DEAD.into()));
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.into(), durable, arguments).await?;
        channel
            .queue_bind(
                queue.into(),
                EVENTS.into(),
                "order.created".into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await?;
    }
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(())
}

/// Order `number`: every tenth is from a country without a tax rate, every fourth pays by card, every fifteenth is
/// too heavy to ship.
fn order(number: u32) -> Json {
    json!({
        "order_id": format!("A-{number:04}"),
        "country": if number.is_multiple_of(10) { "XX" } else { "DE" },
        "payment": if number.is_multiple_of(4) { "card" } else { "invoice" },
        "weight_kg": if number.is_multiple_of(15) { 900 } else { 3 },
        "total": format!("{}.50", 10 + number % 90),
    })
}

fn handle(queue: &str, order: &Json, gateway: Gateway) -> Result<(), Failure> {
    let fail = |class, message: String, place| Err(Failure { class, message, place });
    if queue == SHIPPING {
        return match order["weight_kg"].as_i64().unwrap_or(0) {
            weight @ 500.. => fail(
                "shop.shipping.TooHeavyException",
                format!("{weight} kg is more than a parcel may weigh"),
                "shop.shipping.Parcels.pack(Parcels.java:58)",
            ),
            _ => Ok(()),
        };
    }
    match (order["country"].as_str(), order["payment"].as_str()) {
        (Some("XX"), _) => fail("UnknownCountry", "no tax rate for country XX".to_owned(), "tax"),
        (_, Some("card")) if gateway == Gateway::Down => {
            fail("GatewayDown", "payment gateway is down".to_owned(), "pay")
        }
        _ => Ok(()),
    }
}

/// Billing rejects: the broker dead-letters. Shipping republishes with the exception, and acks.
async fn give_up(channel: &Channel, queue: &str, delivery: &Delivery, failure: &Failure) -> anyhow::Result<()> {
    if queue == BILLING {
        delivery.reject(BasicRejectOptions { requeue: false }).await?;
        return Ok(());
    }
    let mut headers = delivery.properties.headers().clone().unwrap_or_default();
    let trace = failure.stack_trace(
        "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception",
        "org.springframework.amqp.rabbit.listener.MessageListenerContainer.invoke(MessageListenerContainer.java:1)",
    );
    for (name, value) in [
        ("x-original-exchange", delivery.exchange.as_str()),
        ("x-original-routingKey", delivery.routing_key.as_str()),
        ("x-exception-message", failure.message.as_str()),
        ("x-exception-stacktrace", trace.as_str()),
    ] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = delivery.properties.clone().with_headers(headers);
    let key = format!("error.{}", delivery.routing_key);
    channel
        .basic_publish(
            DEAD.into(),
            key.into(),
            BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() },
            &delivery.data,
            properties,
        )
        .await?
        .await?;
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}
