use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, check::Checks, destination::Destination, path::Path, scalar::Glob};

/// Where letters go that services wrote into the table themselves, and where a message does not say. First match wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Which services; `*` stands for anything.
    #[serde(default = "Glob::any")]
    pub service: Glob,
    /// Which event types; `*` stands for anything.
    #[serde(default = "Glob::any")]
    pub event_type: Glob,
    /// Where to.
    pub to: Destination,
}

pub(super) fn check(config: &Config, checks: &mut Checks<'_>) {
    for (n, route) in config.routes.iter().enumerate() {
        route.to.check(config, &Path::from("routes").index(n).key("to"), true, checks);
    }
}
