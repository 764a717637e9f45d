use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Duration;

/// How long letters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Closed letters, from their capture on. Open ones stay until someone decides.
    pub closed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { closed: Duration::secs(90 * 86_400) }
    }
}
