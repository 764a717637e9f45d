use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check::Checks, path::Path, scalar::Pem};

/// Certificates of a connection: paths of PEM files (relative to this file) or PEM text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Who may vouch for the server; without it the system's authorities do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<Pem>,
    /// Our own certificate, where the server asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<Pem>,
    /// The key of `cert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Pem>,
}

impl Tls {
    pub(super) fn check(&self, path: Path, checks: &mut Checks<'_>) {
        match (&self.cert, &self.key) {
            (Some(_), None) => checks.fault(path.clone().key("cert"), "`cert` needs its `key` beside it"),
            (None, Some(_)) => checks.fault(path.clone().key("key"), "`key` needs its `cert` beside it"),
            _ => {}
        }
        for (key, pem) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            if let Some(Pem::Path(file)) = pem
                && let Err(error) = std::fs::metadata(file)
            {
                let reason = super::expand::reason(&error);
                checks.fault(path.clone().key(key), format!("the file {} cannot be read: {reason}", file.display()));
            }
        }
    }

    /// Relative paths start beside the configuration file.
    pub(super) fn resolve(&mut self, beside: &std::path::Path) {
        for pem in [&mut self.ca, &mut self.cert, &mut self.key].into_iter().flatten() {
            if let Pem::Path(path) = pem {
                *path = beside.join(&*path);
            }
        }
    }
}
