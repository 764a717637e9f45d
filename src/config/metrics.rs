use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check::Checks, http::Http, scalar::Listen};

/// Metrics, liveness and readiness, on a port of their own and without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// IP address and port.
    pub listen: Listen,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { listen: Listen::loopback(9390) }
    }
}

impl Metrics {
    pub(super) fn check(&self, http: &Http, checks: &mut Checks<'_>) {
        if self.listen.collides(http.listen) {
            let message = format!(
                "metrics.listen is {} and http.listen is {}; choose another port for one",
                self.listen, http.listen
            );
            let written = checks.is_given(&"metrics.listen".into());
            checks.fault(if written { "metrics.listen" } else { "http.listen" }, message);
        }
    }
}
