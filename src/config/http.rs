use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{address::HttpAddress, check::Checks, scalar::Listen};

/// The HTTP API and the pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// IP address and port.
    pub listen: Listen,
    /// Who may.
    pub auth: Auth,
    /// The address people use, for links in alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_url: Option<HttpAddress>,
    /// With `auth: none`: everyone on this machine may see bodies and change everything.
    pub insecure_full_access: bool,
}

/// Who may use the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Who has a token; `dlo token create` makes one.
    #[default]
    Token,
    /// Whom the proxy in front names.
    Proxy,
    /// Everyone on this machine; read-only and without bodies unless `insecure_full_access: true`.
    None,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: Listen::loopback(8390), auth: Auth::default(), external_url: None, insecure_full_access: false }
    }
}

impl Http {
    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        if self.auth == Auth::None && !self.listen.is_loopback() {
            let message = format!(
                "`none` is allowed only on loopback, and http.listen is {}; allowed: token, proxy, or listen: 127.0.0.1:{}",
                self.listen,
                self.listen.0.port()
            );
            checks.fault("http.auth", message);
        }
        if self.insecure_full_access && self.auth != Auth::None {
            checks.warn("http.insecure_full_access", "has no effect without `auth: none`");
        }
    }
}
