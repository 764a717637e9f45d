//! A small order system that really fails: the traffic of `./demo`.
//!
//! Orders are published to `shop.events`. Billing takes them from its queue and rejects what it cannot bill into the
//! dead-letter exchange `dlo`: orders from a country without a tax rate fail for good, card payments fail while the
//! payment gateway is down. Shipping does as Spring AMQP's recoverer does: it publishes what failed to the same
//! exchange, with the exception in headers.

use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
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
use tokio::time::{Instant, interval, timeout};

const EVENTS: &str = "shop.events";
const DEAD: &str = "dlo";
const BILLING: &str = "billing.orders";
const SHIPPING: &str = "shipping.orders";

#[derive(Parser)]
struct Arguments {
    /// The broker.
    #[arg(long, env = "DLO_RABBITMQ_URL")]
    amqp: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Publish orders 1 to N.
    Publish { orders: u32 },
    /// Work until there has been nothing to do for two seconds; print what was done as JSON.
    Work {
        #[arg(long, default_value = "up")]
        gateway: Gateway,
    },
    /// Two orders a second and both workers, until stopped. The gateway is down for the first minute of every three.
    Run,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gateway {
    Up,
    Down,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let connection = Connection::connect(&arguments.amqp, ConnectionProperties::default()).await.context("broker")?;
    let channel = connection.create_channel().await?;
    declare(&channel).await?;
    match arguments.command {
        Command::Publish { orders } => {
            for number in 1..=orders {
                publish(&channel, number).await?;
            }
            println!("{}", json!({ "published": orders }));
        }
        Command::Work { gateway } => {
            let (billing, shipping) = tokio::try_join!(
                work(&connection, BILLING, move || gateway, Some(Duration::from_secs(2))),
                work(&connection, SHIPPING, move || gateway, Some(Duration::from_secs(2)))
            )?;
            println!("{}", json!({ "billing": billing.to_json(), "shipping": shipping.to_json() }));
        }
        Command::Run => run(&connection, &channel).await?,
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}

async fn run(connection: &Connection, channel: &Channel) -> anyhow::Result<()> {
    let started = Instant::now();
    let gateway = move || if started.elapsed().as_secs() % 180 < 60 { Gateway::Down } else { Gateway::Up };
    let publishing = async {
        let mut tick = interval(Duration::from_millis(500));
        for number in 1.. {
            tick.tick().await;
            publish(channel, number).await?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(publishing, work(connection, BILLING, gateway, None), work(connection, SHIPPING, gateway, None))?;
    Ok(())
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

async fn publish(channel: &Channel, number: u32) -> anyhow::Result<()> {
    let mut headers = FieldTable::default();
    headers
        .insert("tenant".into(), AMQPValue::LongString(if number.is_multiple_of(2) { "eu-1" } else { "us-2" }.into()));
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2)
        .with_message_id(format!("order-{number}").into())
        .with_type("order.created".into())
        .with_headers(headers);
    let body = serde_json::to_vec(&order(number))?;
    channel
        .basic_publish(EVENTS.into(), "order.created".into(), BasicPublishOptions::default(), &body, properties)
        .await?
        .await?;
    Ok(())
}

/// What a worker did.
#[derive(Default)]
struct Done {
    handled: Vec<String>,
    failed: Vec<String>,
}

impl Done {
    fn to_json(&self) -> Json {
        json!({ "handled": self.handled, "failed": self.failed })
    }
}

/// Takes orders from `queue` until nothing came for `idle`.
async fn work(
    connection: &Connection,
    queue: &str,
    gateway: impl Fn() -> Gateway,
    idle: Option<Duration>,
) -> anyhow::Result<Done> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    channel.basic_qos(10, BasicQosOptions::default()).await?;
    let mut orders =
        channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default()).await?;
    let mut done = Done::default();
    loop {
        let next = match idle {
            Some(idle) => timeout(idle, orders.next()).await.unwrap_or(None),
            None => orders.next().await,
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

struct Failure {
    class: &'static str,
    message: String,
    place: &'static str,
}

fn handle(queue: &str, order: &Json, gateway: Gateway) -> Result<(), Failure> {
    let fail = |class, message: String, place| Err(Failure { class, message, place });
    if queue == SHIPPING {
        return match order["weight_kg"].as_i64().unwrap_or(0) {
            weight @ 500.. => fail(
                "shop.shipping.TooHeavyException",
                format!("{weight} kg is more than a parcel may weigh"),
                "Parcels.pack(Parcels.java:58)",
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
    let trace = format!(
        "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception\n\
         \tat org.springframework.amqp.rabbit.listener.MessageListenerContainer.invoke(MessageListenerContainer.java:1)\n\
         Caused by: {}: {}\n\tat shop.shipping.{}\n",
        failure.class, failure.message, failure.place
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
