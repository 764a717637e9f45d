//! What happens to a new letter by itself.

mod check;
mod header;
mod terms;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use check::check;
pub use header::Headers;
pub use terms::Match;

use super::{
    destination::Destination,
    scalar::{Count, Duration, Percent},
};

/// One rule. The first that matches a new letter decides; a letter that none matches is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, in the audit trail and in `dlo rules`.
    pub name: String,
    /// Which letters; without terms all of them.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// What happens.
    pub act: Act,
    /// RETRY: how long to wait before each attempt; the last one repeats.
    #[serde(default = "backoff")]
    pub backoff: Vec<Duration>,
    /// RETRY: after this many attempts the letter is DEAD.
    #[serde(default = "max_attempts")]
    pub max_attempts: Count<1, 1000>,
    /// RETRY: how much each wait is shortened or lengthened by chance.
    #[serde(default = "jitter")]
    pub jitter: Percent,
    /// FORWARD: where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Destination>,
    /// TAG: the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Act {
    /// Send it home again, after `backoff`, at most `max_attempts` times.
    Retry,
    /// Leave it for a person.
    Hold,
    /// Close it.
    Discard,
    /// Send it somewhere else: `to`.
    Forward,
    /// Put a `tag` on it and go on to the next rule.
    Tag,
}

fn backoff() -> Vec<Duration> {
    vec![Duration::secs(60), Duration::secs(300), Duration::secs(3600)]
}

fn max_attempts() -> Count<1, 1000> {
    const { Count::new(5) }
}

fn jitter() -> Percent {
    const { Percent::new(10) }
}
