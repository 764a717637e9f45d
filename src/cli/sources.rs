//! `dlo sources`: what is captured from, and how far.

mod seek;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{
    CliError, Format,
    client::{Client, parse},
    out::{Out, Paint},
    records::records,
    table::{Cell, Column, lines},
};
use crate::clock::{self, Clock};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set from where a Kafka partition is read; running instances go there within seconds
    Seek(seek::Args),
}

#[derive(Debug, Deserialize)]
struct Source {
    name: String,
    broker: String,
    broker_kind: String,
    state: String,
    trouble: Option<String>,
    waiting: Option<i64>,
    last_letter_at: Option<DateTime<Utc>>,
    group: Option<String>,
    topics: Vec<String>,
    partitions: Vec<Partition>,
    queues: Vec<Queue>,
    instances: Vec<Json>,
}

#[derive(Debug, Deserialize)]
struct Partition {
    topic: String,
    partition: i32,
    epoch: i32,
    position: i64,
    since: i64,
    lost: i64,
    updated_at: DateTime<Utc>,
    first: Option<i64>,
    end: Option<i64>,
    waiting: Option<i64>,
    stopped: bool,
    group_reset_to: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Queue {
    queue: String,
    waiting: Option<i64>,
    open_sessions: i64,
}

const COLUMNS: [Column; 8] = [
    Column::fixed("SOURCE").cut_to(10),
    Column::fixed("BROKER").cut_to(8).leaves(2),
    Column::fixed("STATE"),
    Column::fixed("READS").cut_to(16),
    Column::right("WAITING"),
    Column::right("LAST").leaves(1),
    Column::right("BY").leaves(3),
    Column::fixed("TROUBLE").cut_to(20).weight(2),
];

const PARTITION_COLUMNS: [Column; 9] = [
    Column::fixed("SOURCE").cut_to(10).leaves(1),
    Column::fixed("TOPIC").cut_to(16),
    Column::right("PART"),
    Column::right("POSITION"),
    Column::right("FIRST").leaves(3),
    Column::right("END"),
    Column::right("WAITING"),
    Column::right("LOST").leaves(4),
    Column::fixed("REMARK").cut_to(12).leaves(2),
];

pub(super) async fn sources(client: &Client, args: Args, out: &mut Out) -> Result<(), CliError> {
    match args.command {
        Some(Command::Seek(args)) => seek::seek(client, args, out).await,
        None => list(client, out).await,
    }
}

async fn list(client: &Client, out: &mut Out) -> Result<(), CliError> {
    let text = client.get("sources", &[]).await?;
    match out.format {
        Format::Json => return out.raw_json(&text),
        Format::Jsonl => return records(&items(&text)?, out),
        Format::Csv | Format::Table => {}
    }
    let sources = items::<Source>(&text)?;
    if out.format == Format::Csv {
        return records(&sources.iter().flat_map(flat).collect::<Vec<_>>(), out);
    }
    if sources.is_empty() {
        out.remark("no instance has reported a source yet: dlo run");
        return Ok(());
    }
    let now = Clock::system().now();
    let rows: Vec<_> = sources.iter().map(|source| cells(source, now)).collect();
    lines(&COLUMNS, &rows, out.style).iter().try_for_each(|line| out.line(line))?;
    let rows: Vec<_> = sources.iter().flat_map(|s| s.partitions.iter().map(|p| partition_cells(s, p))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    out.line("")?;
    lines(&PARTITION_COLUMNS, &rows, out.style).iter().try_for_each(|line| out.line(line))
}

fn items<T: serde::de::DeserializeOwned>(text: &str) -> Result<Vec<T>, CliError> {
    #[derive(Deserialize)]
    struct Page<T> {
        items: Vec<T>,
    }
    Ok(parse::<Page<T>>(text)?.items)
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn cells(source: &Source, now: DateTime<Utc>) -> Vec<Cell> {
    let paint = match source.state.as_str() {
        "up" => Paint::Green,
        "partly" => Paint::Yellow,
        "down" => Paint::BoldRed,
        _ => Paint::Dim,
    };
    let last = source.last_letter_at.map_or_else(|| "–".to_owned(), |at| clock::age(at, now));
    vec![
        Cell::painted(&source.name, Paint::Bold),
        Cell::new(&source.broker),
        Cell::painted(&source.state, paint),
        Cell::new(&reads(source)),
        Cell::new(&number(source.waiting)),
        Cell::painted(&last, Paint::Dim),
        Cell::painted(&source.instances.len().to_string(), Paint::Dim),
        Cell::new(source.trouble.as_deref().unwrap_or_default()),
    ]
}

fn reads(source: &Source) -> String {
    match &source.group {
        Some(group) => format!("{} (group {group})", source.topics.join(" ")),
        None => source.queues.iter().map(|queue| queue.queue.as_str()).collect::<Vec<_>>().join(" "),
    }
}

fn partition_cells(source: &Source, partition: &Partition) -> Vec<Cell> {
    let remark = match partition.group_reset_to {
        _ if partition.stopped => Cell::painted("stopped: its end is before our position", Paint::BoldRed),
        Some(offset) => Cell::painted(&format!("the group was set to {offset}, not followed"), Paint::Yellow),
        None => Cell::new(""),
    };
    let lost = if partition.lost > 0 { Paint::BoldRed } else { Paint::Dim };
    vec![
        Cell::painted(&source.name, Paint::Dim),
        Cell::new(&partition.topic),
        Cell::new(&partition.partition.to_string()),
        Cell::painted(&partition.position.to_string(), Paint::Bold),
        Cell::new(&number(partition.first)),
        Cell::new(&number(partition.end)),
        Cell::new(&number(partition.waiting)),
        Cell::painted(&partition.lost.to_string(), lost),
        remark,
    ]
}

/// One record for each partition and queue, and one for a source that has neither.
fn flat(source: &Source) -> Vec<Json> {
    let record = |queue: Option<&Queue>, partition: Option<&Partition>| {
        json!({
            "source": source.name,
            "broker": source.broker,
            "broker_kind": source.broker_kind,
            "state": source.state,
            "trouble": source.trouble,
            "last_letter_at": source.last_letter_at,
            "group": source.group,
            "queue": queue.map(|queue| &queue.queue),
            "open_sessions": queue.map(|queue| queue.open_sessions),
            "topic": partition.map(|partition| &partition.topic),
            "partition": partition.map(|partition| partition.partition),
            "epoch": partition.map(|partition| partition.epoch),
            "position": partition.map(|partition| partition.position),
            "since": partition.map(|partition| partition.since),
            "first": partition.and_then(|partition| partition.first),
            "end": partition.and_then(|partition| partition.end),
            "waiting": partition.map_or_else(|| queue.and_then(|queue| queue.waiting), |partition| partition.waiting),
            "lost": partition.map(|partition| partition.lost),
            "stopped": partition.map(|partition| partition.stopped),
            "group_reset_to": partition.and_then(|partition| partition.group_reset_to),
            "updated_at": partition.map(|partition| partition.updated_at),
        })
    };
    let queues = source.queues.iter().map(|queue| record(Some(queue), None));
    let records: Vec<Json> = queues.chain(source.partitions.iter().map(|one| record(None, Some(one)))).collect();
    if records.is_empty() { vec![record(None, None)] } else { records }
}
