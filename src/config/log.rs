use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::{
    check::Checks,
    fault::{did_you_mean, shown},
};

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Lines for people or JSON for machines.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, `off`, or levels by module as in `info,dead_letter_office=debug`.
    pub level: String,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

impl Log {
    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        // A bare word that is no level is taken for the name of a module by the filter: no error, and no log.
        let is_wrong = |part: &&str| part.contains(['/', '@']) || !part.contains(['=', ':', '[']) && !is_level(part);
        let bare = self.level.split(',').map(str::trim).find(is_wrong);
        let fault = bare.or_else(|| EnvFilter::try_new(&self.level).is_err().then_some(self.level.as_str()));
        if let Some(fault) = fault {
            let given = shown(fault).unwrap_or_default();
            let meant = did_you_mean(fault, LEVELS);
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
            let allowed = LEVELS.join(", ");
            checks.fault(
                "log.level",
                format!("given \"{given}\"; allowed: {allowed}, or module=level with commas{hint}"),
            );
        }
    }
}

fn is_level(text: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text))
}
