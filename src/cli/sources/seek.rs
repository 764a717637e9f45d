//! `dlo sources seek`.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;

use super::{Source, items};
use crate::cli::{
    CliError, Format,
    act::ask,
    client::{Client, parse},
    out::Out,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Whose position; not needed where one source reads the partition
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// The topic
    #[arg(long, value_name = "TOPIC")]
    topic: String,
    /// The partition's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// The next offset to read; dlo sources tells the first and the end
    #[arg(long, value_name = "OFFSET", value_parser = offset, allow_hyphen_values = true)]
    to: i64,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Tell what it would mean, and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn offset(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "an offset is a number from 0; dlo sources tells each partition's first and end".to_owned())
}

#[derive(Debug, Deserialize)]
struct Seek {
    from: i64,
    captured_again: i64,
    skipped: i64,
    end: Option<i64>,
}

pub(super) async fn seek(client: &Client, args: Args, out: &mut Out) -> Result<(), CliError> {
    let source = match &args.source {
        Some(source) => source.clone(),
        None => reader(&items::<Source>(&client.get("sources", &[]).await?)?, &args)?,
    };
    let path = format!("sources/{}/seek", utf8_percent_encode(&source, NON_ALPHANUMERIC));
    let request =
        |dry_run| json!({"topic": args.topic, "partition": args.partition, "to": args.to, "dry_run": dry_run});
    let would = client.post(&path, &request(true)).await?;
    let meaning: Seek = parse(&would)?;
    if args.dry_run {
        return if out.format == Format::Table {
            out.line(&told(&args, &meaning, "would go"))
        } else {
            out.raw_json(&would)
        };
    }
    if meaning.from != args.to {
        ask(&told(&args, &meaning, "move"), args.yes)?;
    }
    let done = client.post(&path, &request(false)).await?;
    if out.format != Format::Table {
        return out.raw_json(&done);
    }
    out.line(&told(&args, &parse(&done)?, "goes"))?;
    out.remark("running instances go there within seconds");
    Ok(())
}

/// The one source that reads the partition.
fn reader(sources: &[Source], args: &Args) -> Result<String, CliError> {
    let place = format!("{}/{}", args.topic, args.partition);
    let reads = |source: &&Source| {
        source.partitions.iter().any(|partition| partition.topic == args.topic && partition.partition == args.partition)
    };
    let names: Vec<&str> = sources.iter().filter(reads).map(|source| source.name.as_str()).collect();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => {
            Err(CliError::Missing(format!("no source has a position in {place}; there are: {}", known(sources, args))))
        }
        several => {
            Err(CliError::Usage(format!("{place} is read by {}; say which with --source", several.join(" and "))))
        }
    }
}

/// The topic's partitions; where there are none, the topics.
fn known(sources: &[Source], args: &Args) -> String {
    let all = sources.iter().flat_map(|source| &source.partitions);
    let of_topic = all.clone().filter(|partition| partition.topic == args.topic);
    let mut names: Vec<String> = of_topic.map(|one| format!("{}/{}", one.topic, one.partition)).collect();
    if names.is_empty() {
        names = all.map(|one| one.topic.clone()).collect();
    }
    names.sort();
    names.dedup();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What it means, in one line.
fn told(args: &Args, seek: &Seek, verb: &str) -> String {
    let place = format!("{verb} {}/{} from {} to {}", args.topic, args.partition, seek.from, args.to);
    let means = match (seek.captured_again, seek.skipped) {
        (0, 0) if seek.from == args.to => {
            return format!("{}/{} is at {} already", args.topic, args.partition, args.to);
        }
        (0, 0) => "no message is captured again or skipped".to_owned(),
        (again, 0) => format!("up to {again} messages are captured a second time"),
        (_, skipped) => format!("up to {skipped} messages are never captured"),
    };
    let unchecked = if seek.end.is_none() { " (no running instance tells where the partition ends)" } else { "" };
    format!("{place}: {means}{unchecked}")
}
