use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Duration;

/// The orderly stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shutdown {
    /// How long it may take before what is still running is cut off. Kubernetes must wait longer than this.
    pub deadline: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { deadline: Duration::secs(20) }
    }
}
