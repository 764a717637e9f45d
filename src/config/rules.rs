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
    /// 1m, 5m and 1h unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Vec<Duration>>,
    /// RETRY: after this many attempts the letter is DEAD; 5 unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<Count<1, 1000>>,
    /// RETRY: how much each wait is shortened or lengthened by chance; 10% unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Percent>,
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

/// How a RETRY rule tries again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How long to wait before each attempt; the last one repeats. Never empty once checked.
    pub backoff: Vec<Duration>,
    pub max_attempts: u32,
    pub jitter: Percent,
}

impl Rule {
    /// How to try again; `None` where the rule does something else.
    #[must_use]
    pub fn retry(&self) -> Option<RetryPolicy> {
        let backoff = || vec![Duration::secs(60), Duration::secs(300), Duration::secs(3600)];
        (self.act == Act::Retry).then(|| RetryPolicy {
            backoff: self.backoff.clone().unwrap_or_else(backoff),
            max_attempts: self.max_attempts.map_or(5, Count::get),
            jitter: self.jitter.unwrap_or(const { Percent::new(10) }),
        })
    }
}
