use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{address::HookAddress, check::Checks, path::Path, scalar::Secret};

/// Who is told when something happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// What kind of service is told.
    #[serde(rename = "type")]
    pub kind: AlertKind,
    /// PagerDuty: the integration key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// Where to; required but for PagerDuty, which has an address of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<HookAddress>,
    /// When.
    #[serde(default = "all")]
    pub on: Vec<AlertOn>,
    /// Only for this team's letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
}

/// What kind of service is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertKind {
    Slack,
    Pagerduty,
    Alertmanager,
    Webhook,
}

/// What is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertOn {
    /// A letter has no attempts left.
    Dead,
    /// A failure nobody has seen before.
    NewGroup,
    /// A failure that was resolved is back.
    Regression,
    /// Many more letters than usual.
    Spike,
}

fn all() -> Vec<AlertOn> {
    vec![AlertOn::Dead, AlertOn::NewGroup, AlertOn::Regression, AlertOn::Spike]
}

pub(super) fn check(alerts: &[Alert], checks: &mut Checks<'_>) {
    let path = |n: usize| Path::from("alerts").index(n);
    checks.unique(alerts.iter().enumerate().map(|(n, alert)| (path(n).key("name"), alert.name.as_str())));
    for (n, alert) in alerts.iter().enumerate() {
        match alert.kind {
            AlertKind::Pagerduty if alert.key.is_none() => checks.fault(path(n), "`type: pagerduty` needs `key`"),
            AlertKind::Slack | AlertKind::Alertmanager | AlertKind::Webhook if alert.url.is_none() => {
                checks.fault(path(n), "this type needs `url`");
            }
            _ => {}
        }
        if alert.name.is_empty() {
            checks.fault(path(n).key("name"), "it is empty; name the alert");
        }
        if alert.on.is_empty() {
            checks.fault(path(n).key("on"), "the list is empty, so nothing is ever told");
        }
    }
}
