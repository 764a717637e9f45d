//! `dlo show`: everything about one letter, in the order in which people ask for it.

mod page;
mod sections;

use serde_json::value::RawValue;

use self::page::Page;
use super::{
    CliError, Format,
    client::{Client, parse},
    out::Out,
};
use crate::clock::Clock;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which letter
    id: i64,
    /// Cut nothing: the whole payload and stack trace
    #[arg(long)]
    full: bool,
}

pub(super) async fn show(client: &Client, args: Args, out: &mut Out) -> Result<(), CliError> {
    let path = format!("letters/{}", args.id);
    let text = client.get(&path, &[]).await?;
    match out.format {
        Format::Table => {}
        Format::Csv => return Err(CliError::Usage("a letter is no table; use -o json".to_owned())),
        Format::Json | Format::Jsonl => return out.raw_json(&text),
    }
    let lives = client.get(&format!("{path}/lives"), &[]).await?;
    let mut page = Page::new(out.style, args.full, Clock::system().now());
    sections::write(&mut page, args.id, &letter(&text)?, &parse(&lives)?);
    out.line(page.text().trim_end())
}

/// A letter's fields; payload and headers as they are written.
fn letter(text: &str) -> Result<sections::Letter, CliError> {
    let fields: std::collections::HashMap<String, Box<RawValue>> = parse(text)?;
    Ok(sections::Letter::new(fields))
}
