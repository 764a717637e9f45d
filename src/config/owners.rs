use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check::Checks, path::Path, scalar::Glob};

/// A team and the services it owns; the first entry that matches a letter fills its column `team`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The team's name.
    pub team: String,
    /// Names of services; `*` stands for anything.
    pub services: Vec<Glob>,
}

impl Owner {
    #[must_use]
    pub fn owns(&self, service: &str) -> bool {
        self.services.iter().any(|glob| glob.matches(service))
    }
}

pub(super) fn check(owners: &[Owner], checks: &mut Checks<'_>) {
    for (n, owner) in owners.iter().enumerate() {
        let path = Path::from("owners").index(n);
        if owner.team.is_empty() {
            checks.fault(path.clone().key("team"), "it is empty; name a team");
        }
        if owner.services.is_empty() {
            checks.fault(path.key("services"), "the list is empty, so this team owns nothing");
        }
    }
}
