//! `dlo ls`: a list of letters.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, value::RawValue};

use super::{
    CliError, Format,
    client::{Client, parse},
    out::{Out, Paint},
    records::records,
    selection::Selection,
    table::{Cell, Column, lines},
};
use crate::{
    clock::{self, Clock},
    store::query::PAGE_MAX,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these letters
    #[arg(value_name = "ID")]
    ids: Vec<i64>,
    #[command(flatten)]
    selection: Selection,
    /// How many at most; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

/// What the table shows of a letter.
#[derive(Debug, Deserialize)]
struct Row {
    id: i64,
    created_at: DateTime<Utc>,
    status: String,
    service_name: String,
    event_type: String,
    error_class: Option<String>,
    error_message: Option<String>,
    attempts: Option<i32>,
    retry_count: i32,
    origin_queue: Option<String>,
    origin_topic: Option<String>,
    captured_queue: Option<String>,
}

const COLUMNS: [Column; 8] = [
    Column::right("ID"),
    Column::right("AGE"),
    Column::fixed("STATUS"),
    Column::fixed("SERVICE").cut_to(10),
    Column::fixed("EVENT").cut_to(12).leaves(1),
    Column::fixed("ERROR").cut_to(24).weight(3),
    Column::right("TRIES").leaves(2),
    Column::fixed("DIED IN").cut_to(12).leaves(3),
];

pub(super) async fn ls(client: &Client, args: Args, out: &mut Out) -> Result<(), CliError> {
    if out.format == Format::Jsonl {
        return stream(client, args, out).await;
    }
    let mut all = Page { items: Vec::new(), next: None };
    let mut pages = Pages::new(&args);
    while let Some(page) = pages.next(client).await? {
        all.items.extend(page.items);
        all.next = page.next;
    }
    match out.format {
        Format::Table => table(&all, out),
        Format::Csv => csv(&all.items, out),
        _ => out.json(&all),
    }
}

/// Lines go out as pages come in: any number of letters in little memory.
async fn stream(client: &Client, args: Args, out: &mut Out) -> Result<(), CliError> {
    let mut pages = Pages::new(&args);
    while let Some(page) = pages.next(client).await? {
        page.items.iter().try_for_each(|item| out.line(item.get()))?;
        out.flush()?;
    }
    Ok(())
}

/// Pages of the API until enough letters are there.
struct Pages {
    pairs: Vec<(&'static str, String)>,
    cursor: Option<String>,
    left: usize,
    done: bool,
}

impl Pages {
    fn new(args: &Args) -> Self {
        let mut pairs = args.selection.pairs();
        pairs.extend(args.ids.iter().map(|id| ("ids", id.to_string())));
        let left = if args.limit == 0 { usize::MAX } else { args.limit };
        Self { pairs, cursor: args.cursor.clone(), left, done: false }
    }

    async fn next(&mut self, client: &Client) -> Result<Option<Page>, CliError> {
        if self.done || self.left == 0 {
            return Ok(None);
        }
        let mut pairs = self.pairs.clone();
        pairs.push(("limit", self.left.min(PAGE_MAX as usize).to_string()));
        pairs.extend(self.cursor.iter().map(|cursor| ("cursor", cursor.clone())));
        let page: Page = parse(&client.get("letters", &pairs).await?)?;
        self.left = self.left.saturating_sub(page.items.len());
        self.cursor.clone_from(&page.next);
        self.done = page.next.is_none();
        Ok(Some(page))
    }
}

fn table(page: &Page, out: &mut Out) -> Result<(), CliError> {
    if page.items.is_empty() {
        out.remark("no letters match");
        return Ok(());
    }
    let now = Clock::system().now();
    let rows = page.items.iter().map(|item| parse::<Row>(item.get()).map(|row| cells(&row, now)));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    lines(&COLUMNS, &rows, out.style).iter().try_for_each(|line| out.line(line))?;
    if let Some(next) = &page.next {
        out.remark(&format!("{} letters, newest first; more with --cursor {next}, or --limit 0 for all", rows.len()));
    }
    Ok(())
}

fn cells(row: &Row, now: DateTime<Utc>) -> Vec<Cell> {
    let died_in = row.origin_queue.as_deref().or(row.origin_topic.as_deref()).or(row.captured_queue.as_deref());
    // The consumer's own, plus ours.
    let tries = match (row.attempts, row.retry_count) {
        (None, 0) => "–".to_owned(),
        (None, ours) => format!("+{ours}"),
        (Some(its), 0) => its.to_string(),
        (Some(its), ours) => format!("{its}+{ours}"),
    };
    vec![
        Cell::painted(&row.id.to_string(), Paint::Bold),
        Cell::painted(&clock::age(row.created_at, now), Paint::Dim),
        Cell::painted(&row.status, Paint::of_status(&row.status)),
        Cell::new(&row.service_name),
        Cell::new(&row.event_type),
        Cell::new(&error(row.error_class.as_deref(), row.error_message.as_deref())),
        Cell::new(&tries),
        Cell::painted(died_in.unwrap_or("–"), Paint::Dim),
    ]
}

/// Class without its package, and the message.
fn error(class: Option<&str>, message: Option<&str>) -> String {
    let class = class.map(|class| class.rsplit(['.', '\\', ':', '+']).next().unwrap_or(class));
    match (class, message.filter(|message| !message.is_empty())) {
        (Some(class), Some(message)) if message.starts_with(class) => message.to_owned(),
        (Some(class), Some(message)) => format!("{class}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "–".to_owned(),
    }
}

fn csv(items: &[Box<RawValue>], out: &mut Out) -> Result<(), CliError> {
    let items = items.iter().map(|item| parse::<Json>(item.get())).collect::<Result<Vec<_>, _>>()?;
    records(&items, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_class_without_its_package_and_the_message() {
        assert_eq!(error(Some("java.lang.IllegalStateException"), Some("no stock")), "IllegalStateException: no stock");
        assert_eq!(error(Some("App\\Errors\\Gone"), None), "Gone");
        assert_eq!(error(Some("ValueError"), Some("ValueError: bad")), "ValueError: bad");
        assert_eq!(error(None, Some("rejected")), "rejected");
        assert_eq!(error(None, None), "–");
    }
}
