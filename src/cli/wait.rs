//! `dlo replay --wait`: looks until it is known what became of replays.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{
    CliError, Format,
    act::Outcome,
    client::{Client, parse},
    out::{Out, Paint},
    replay::Args,
};

const LOOK_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Deserialize)]
struct State {
    state: String,
    verdict: Option<String>,
    error: Option<String>,
    returned_as: Option<i64>,
}

impl State {
    fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "PENDING" | "LEASED")
    }

    /// It went out, and may still come back.
    fn may_return(&self) -> bool {
        self.state == "DONE" && matches!(self.verdict.as_deref(), Some("ACCEPTED" | "ROUTED"))
    }
}

/// `replays` are pairs of letter and replay.
pub(super) async fn wait(
    client: &Client,
    replays: Vec<(i64, i64)>,
    args: &Args,
    outcome: &mut Outcome,
    out: &mut Out,
) -> Result<(), CliError> {
    let deadline = Instant::now() + args.timeout;
    let mut open: Vec<(i64, i64, Option<Instant>)> =
        replays.into_iter().map(|(letter, id)| (letter, id, None)).collect();
    while !open.is_empty() {
        let mut still = Vec::new();
        for (letter, id, mut watched_until) in open {
            let text = client.get(&format!("replays/{id}"), &[]).await?;
            let state: State = parse(&text)?;
            let now = Instant::now();
            if state.may_return() && now < *watched_until.get_or_insert(now + args.watch)
                || state.is_open() && now < deadline
            {
                still.push((letter, id, watched_until));
                continue;
            }
            report(letter, id, &state, &text, args, out)?;
            if let Some(failure) = failure(letter, id, &state) {
                outcome.failed(&failure);
            }
        }
        open = still;
        if !open.is_empty() {
            sleep(LOOK_INTERVAL).await;
        }
    }
    Ok(())
}

fn report(letter: i64, id: i64, state: &State, text: &str, args: &Args, out: &mut Out) -> Result<(), CliError> {
    if out.format != Format::Table {
        return out.line(text);
    }
    if state.may_return() {
        let verdict = state.verdict.as_deref().unwrap_or_default();
        let verdict = Paint::Green.on(verdict, out.style.colour);
        let watch = humantime::format_duration(args.watch);
        out.line(&format!("letter {letter}: replay {id} {verdict}; it did not come back within {watch}"))?;
    } else if failure(letter, id, state).is_none() {
        let verdict = Paint::Green.on(state.verdict.as_deref().unwrap_or(&state.state), out.style.colour);
        out.line(&format!("letter {letter}: replay {id} {verdict}"))?;
    }
    out.flush()
}

fn failure(letter: i64, id: i64, state: &State) -> Option<CliError> {
    let error = state.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let what = match (state.state.as_str(), state.verdict.as_deref()) {
        ("DONE", Some("DIED_AGAIN")) => match state.returned_as {
            Some(row) => format!("died again, as letter {row}"),
            None => "died again".to_owned(),
        },
        ("DONE", Some("UNROUTABLE")) => format!("was unroutable{error}"),
        ("DONE", Some("REFUSED")) => format!("was refused{error}"),
        ("DONE", _) => return None,
        ("IN_DOUBT", _) => format!("is in doubt{error}"),
        (state, _) => format!("is still {state}{error}; does dlo run?"),
    };
    Some(CliError::Failed(format!("letter {letter}: replay {id} {what}")))
}
