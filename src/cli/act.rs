//! `dlo discard`, `dlo reopen`, `dlo resolve`.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::{Value as Json, json};

use super::{
    CliError, Format,
    client::{Client, parse},
    error::tell,
    out::{Out, Paint},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which letters
    #[arg(required = true, value_name = "ID")]
    ids: Vec<i64>,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Tell what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn act(client: &Client, action: &str, args: Args, out: &mut Out) -> Result<(), CliError> {
    if args.dry_run {
        return would(client, action, &args.ids, out).await;
    }
    confirm(&format!("{action} {} letters", args.ids.len()), args.ids.len(), args.yes)?;
    let mut outcome = Outcome::default();
    for id in &args.ids {
        let answer = client.post(&format!("letters/{id}/{action}"), &json!({"reason": args.reason})).await;
        let Some(text) = outcome.take(*id, answer)? else { continue };
        let letter: Json = parse(&text)?;
        let status = letter["status"].as_str().unwrap_or_default();
        match out.format {
            Format::Table => {
                let status = Paint::of_status(status).on(status, out.style.colour);
                out.line(&format!("letter {id}: {status}"))?;
            }
            _ => out.line(&json!({"id": id, "status": status}).to_string())?,
        }
    }
    outcome.end(out)
}

async fn would(client: &Client, action: &str, ids: &[i64], out: &mut Out) -> Result<(), CliError> {
    let mut outcome = Outcome::default();
    for id in ids {
        let Some(text) = outcome.take(*id, client.get(&format!("letters/{id}"), &[]).await)? else { continue };
        let letter: Json = parse(&text)?;
        out.line(&format!("would {action} letter {id}, which is {}", letter["status"].as_str().unwrap_or_default()))?;
    }
    outcome.end(out)
}

/// Several letters, of which some may fail: each failure is told, the first decides the exit code.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    first: Option<u8>,
}

impl Outcome {
    /// The answer, or `None` when letter `id` failed. What concerns all of them ends it.
    pub(super) fn take(&mut self, id: i64, answer: Result<String, CliError>) -> Result<Option<String>, CliError> {
        match answer {
            Ok(text) => Ok(Some(text)),
            Err(CliError::Failed(why)) => {
                self.failed(&CliError::Failed(naming(id, why)));
                Ok(None)
            }
            Err(CliError::Missing(why)) => {
                self.failed(&CliError::Missing(naming(id, why)));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn failed(&mut self, error: &CliError) {
        tell(&error.to_string());
        self.first.get_or_insert(error.code());
    }

    pub(super) fn end(self, out: &mut Out) -> Result<(), CliError> {
        out.flush()?;
        self.first.map_or(Ok(()), |code| Err(CliError::Code(code)))
    }
}

/// Says which letter it is about, unless it does already.
fn naming(id: i64, why: String) -> String {
    if why.contains(&format!("letter {id}")) { why } else { format!("letter {id}: {why}") }
}

/// Asks before more than one letter is changed. Where nobody can answer, `--yes` has to be there.
pub(super) fn confirm(what: &str, letters: usize, yes: bool) -> Result<(), CliError> {
    if letters <= 1 { Ok(()) } else { ask(what, yes) }
}

/// Asks before something that has consequences.
pub(super) fn ask(what: &str, yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage(format!("this would {what}; add --yes to do it without being asked")));
    }
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{}{}? [y/N] ", what[..1].to_uppercase(), &what[1..]).and_then(|()| stderr.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(CliError::Failed("nothing was changed".to_owned()))
    }
}
