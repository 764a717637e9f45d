//! A small order system that really fails, on both brokers: the traffic of `./demo`.
//!
//! Orders go to RabbitMQ ([`rabbit`]), where billing and shipping work on them; the payment of each order's seller goes
//! to Kafka ([`kafka`]), where payouts works on it. Some fail for good, some only while the payment gateway is down.

mod kafka;
mod rabbit;

use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, interval};

use crate::{
    kafka::Payments,
    rabbit::{BILLING, Orders, SHIPPING},
};

#[derive(Parser)]
struct Arguments {
    #[arg(long, env = "DLO_RABBITMQ_URL")]
    amqp: String,
    #[arg(long, env = "DLO_KAFKA_BROKERS")]
    kafka: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the topics anew. What was in them is gone.
    Setup,
    /// Publish orders 1 to N, and their payments.
    Publish { orders: u32 },
    /// Work until there is nothing left to do; print what was done as JSON.
    Work {
        #[arg(long, default_value = "up")]
        gateway: Gateway,
    },
    /// Two orders a second and all workers, until stopped. The gateway is down for the first minute of every three.
    Run,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gateway {
    Up,
    Down,
}

/// When a worker goes home.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    NothingLeft,
    Stopped,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let orders = Orders::connect(&arguments.amqp).await?;
    let payments = Payments::connect(&arguments.kafka)?;
    match arguments.command {
        Command::Setup => payments.make_topics_anew().await?,
        Command::Publish { orders: count } => {
            for number in 1..=count {
                tokio::try_join!(orders.publish(number), payments.publish(number))?;
            }
            println!("{}", json!({ "published": count }));
        }
        Command::Work { gateway } => {
            let (billing, shipping, payouts) = work(&orders, &payments, move || gateway, Until::NothingLeft).await?;
            let done =
                json!({ "billing": billing.to_json(), "shipping": shipping.to_json(), "payouts": payouts.to_json() });
            println!("{done}");
        }
        Command::Run => run(&orders, &payments).await?,
    }
    orders.close().await
}

async fn run(orders: &Orders, payments: &Payments) -> anyhow::Result<()> {
    let started = Instant::now();
    let gateway = move || if started.elapsed().as_secs() % 180 < 60 { Gateway::Down } else { Gateway::Up };
    let publishing = async {
        let mut tick = interval(Duration::from_millis(500));
        for number in 1.. {
            tick.tick().await;
            tokio::try_join!(orders.publish(number), payments.publish(number))?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(publishing, work(orders, payments, gateway, Until::Stopped))?;
    Ok(())
}

async fn work(
    orders: &Orders,
    payments: &Payments,
    gateway: impl Fn() -> Gateway + Copy,
    until: Until,
) -> anyhow::Result<(Done, Done, Done)> {
    tokio::try_join!(
        orders.work(BILLING, gateway, until),
        orders.work(SHIPPING, gateway, until),
        payments.work(gateway, until)
    )
}

/// For whom the shop sells in order `number`.
fn tenant(number: u32) -> &'static str {
    if number.is_multiple_of(2) { "eu-1" } else { "us-2" }
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

/// Why a worker gives up on something.
struct Failure {
    class: &'static str,
    message: String,
    place: &'static str,
}

impl Failure {
    /// As Java prints what a framework threw because a listener had thrown.
    fn stack_trace(&self, outer: &str, container: &str) -> String {
        format!("{outer}\n\tat {container}\nCaused by: {}: {}\n\tat {}\n", self.class, self.message, self.place)
    }
}
