//! `dlo replay`: asks for letters to be sent home.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    CliError, Format,
    act::{Outcome, confirm},
    client::{Client, parse},
    out::Out,
    table::one_line,
    wait,
};
use crate::policy::target;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which letters
    #[arg(required = true, value_name = "ID")]
    ids: Vec<i64>,
    /// original, queue, or a target in JSON as the API takes it
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["to_queue", "to_exchange", "to_topic"])]
    target: Option<String>,
    /// To this queue only
    #[arg(long, value_name = "QUEUE", conflicts_with_all = ["to_exchange", "to_routing_key", "to_topic"])]
    to_queue: Option<String>,
    /// To this exchange
    #[arg(long, value_name = "EXCHANGE", requires = "to_routing_key", conflicts_with = "to_topic")]
    to_exchange: Option<String>,
    /// With this routing key
    #[arg(long, value_name = "KEY", requires = "to_exchange")]
    to_routing_key: Option<String>,
    /// To this Kafka topic
    #[arg(long, value_name = "TOPIC")]
    to_topic: Option<String>,
    /// And this partition; without it the key chooses
    #[arg(long, value_name = "NUMBER", requires = "to_topic")]
    to_partition: Option<i32>,
    /// Show what would be published, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Wait until it is done; exit 1 when it was not routed, or came back
    #[arg(long)]
    wait: bool,
    /// How long to wait for the broker's answer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration, requires = "wait")]
    pub(super) timeout: Duration,
    /// How long to look whether a routed message comes back
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration, requires = "wait")]
    pub(super) watch: Duration,
}

impl Args {
    /// The target, checked before anything is connected to.
    pub(super) fn check(&self) -> Result<Json, CliError> {
        let target = match (&self.target, &self.to_queue, &self.to_exchange, &self.to_topic) {
            (_, Some(queue), ..) => json!({"queue": queue}),
            (_, _, Some(exchange), _) => json!({"exchange": exchange, "routing_key": self.to_routing_key}),
            (.., Some(topic)) => json!({"topic": topic, "partition": self.to_partition}),
            (Some(text), ..) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            (None, None, None, None) => json!("original"),
        };
        target::parse(&target).map_err(|error| CliError::Usage(format!("--target: {error}")))?;
        Ok(target)
    }
}

pub(super) async fn replay(client: &Client, args: Args, target: Json, out: &mut Out) -> Result<(), CliError> {
    if args.dry_run {
        return preview(client, &args.ids, &target, out).await;
    }
    let count = args.ids.len();
    confirm(&format!("replay {count} letters to {}", name(&target)), count, args.yes)?;
    let mut outcome = Outcome::default();
    let mut replays = Vec::new();
    for id in &args.ids {
        let answer = client.post(&format!("letters/{id}/replay"), &json!({"target": target})).await;
        let Some(text) = outcome.take(*id, answer)? else { continue };
        let replay: Json = parse(&text)?;
        match out.format {
            Format::Table => {
                out.line(&format!("letter {id}: replay {} to {} asked for", replay["id"], name(&target)))?
            }
            _ if args.wait => {}
            _ => out.line(&text)?,
        }
        replays.push((*id, replay["id"].as_i64().unwrap_or_default()));
    }
    out.flush()?;
    if args.wait {
        wait::wait(client, replays, &args, &mut outcome, out).await?;
    }
    outcome.end(out)
}

async fn preview(client: &Client, ids: &[i64], target: &Json, out: &mut Out) -> Result<(), CliError> {
    let mut outcome = Outcome::default();
    for id in ids {
        let answer = client.post(&format!("letters/{id}/replay"), &json!({"target": target, "dry_run": true})).await;
        let Some(text) = outcome.take(*id, answer)? else { continue };
        if out.format != Format::Table {
            out.raw_json(&text)?;
            continue;
        }
        let publish: Json = parse(&text)?;
        let place = place(&publish);
        out.line(&format!("letter {id}: would publish {} bytes to {place}", publish["body_bytes"]))?;
        for part in ["properties", "headers"] {
            for (name, value) in publish[part].as_object().into_iter().flatten() {
                out.line(&format!(
                    "  {} {} = {}",
                    &part[..part.len() - 1].replace("propertie", "property"),
                    one_line(name),
                    one_line(&text_of(value))
                ))?;
            }
        }
    }
    outcome.end(out)
}

fn text_of(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A target in words.
fn name(target: &Json) -> String {
    match target.as_str() {
        Some("original") => "where it was first published".to_owned(),
        Some(_) => "the consumer that failed".to_owned(),
        None => place(target),
    }
}

/// A place in words.
fn place(place: &Json) -> String {
    let text = |name: &str| one_line(&text_of(&place[name]));
    match (place["queue"].as_str(), place["topic"].is_null(), place["exchange"].as_str()) {
        (Some(queue), ..) => format!("queue {}", one_line(queue)),
        (None, false, _) if place["partition"].is_null() => format!("topic {}", text("topic")),
        (None, false, _) => format!("topic {}, partition {}", text("topic"), place["partition"]),
        (None, true, Some("")) => format!("queue {}", text("routing_key")),
        (None, true, _) => format!("exchange {}, routing key {}", text("exchange"), text("routing_key")),
    }
}
