use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Count, Duration, Rate};

/// From the table back home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Replay {
    /// How many claims of one broker a process works on at once. Together they have a thousand letters in hand, whatever
    /// their number: with more of them, reading and recording some overlaps more with sending others.
    pub concurrency: Count<1, 1000>,
    /// How long a letter belongs to the process that took it, before another may.
    pub lease: Duration,
    /// How long a letter must stay away before it counts as resolved.
    pub verdict_window: Duration,
    /// The most replays to one target, all processes together: `100/s`, `6000/m` or `unlimited`.
    pub rate: Rate,
    /// What becomes of a letter when a crash left open whether it was sent.
    pub in_doubt: InDoubt,
    /// A statement that sets more letters than this to PENDING_RETRY waits for a person.
    pub sql_release_above: Count<0, { u32::MAX }>,
}

/// What becomes of a letter when a crash left open whether it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InDoubt {
    /// It waits for a person.
    #[default]
    Hold,
    /// It is sent again, with the same letter id.
    Resend,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            concurrency: const { Count::new(4) },
            lease: Duration::secs(60),
            verdict_window: Duration::secs(600),
            rate: Rate::per_second(100),
            in_doubt: InDoubt::Hold,
            sql_release_above: const { Count::new(100) },
        }
    }
}
