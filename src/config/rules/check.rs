use super::Act;
use crate::config::{Config, check::Checks, path::Path};

pub(in crate::config) fn check(config: &Config, checks: &mut Checks<'_>) {
    let path = |n: usize| Path::from("rules").index(n);
    checks.unique(config.rules.iter().enumerate().map(|(n, rule)| (path(n).key("name"), rule.name.as_str())));
    for (n, rule) in config.rules.iter().enumerate() {
        let path = path(n);
        if rule.name.is_empty() {
            checks.fault(path.clone().key("name"), "it is empty; name the rule");
        }
        if rule.backoff.as_ref().is_some_and(Vec::is_empty) {
            checks.fault(path.clone().key("backoff"), "the list is empty; allowed: at least one duration");
        }
        let keys = [
            (Act::Retry, ["backoff", "max_attempts", "jitter"].as_slice()),
            (Act::Forward, &["to"]),
            (Act::Tag, &["tag"]),
        ];
        for (act, keys) in keys {
            for key in keys.iter().filter(|_| rule.act != act) {
                let path = path.clone().key(key);
                if checks.is_given(&path) {
                    checks.fault(path, format!("only for `act: {}`", format!("{act:?}").to_uppercase()));
                }
            }
        }
        match (rule.act, &rule.to, rule.tag.as_deref()) {
            (Act::Forward, None, _) => checks.fault(path.clone(), "`act: FORWARD` needs `to`"),
            (Act::Forward, Some(to), _) => to.check(config, &path.clone().key("to"), false, checks),
            (Act::Tag, _, None | Some("")) => checks.fault(path.clone(), "`act: TAG` needs `tag`"),
            _ => {}
        }
        let ends_all = rule.matches.is_empty() && rule.act != Act::Tag;
        if ends_all && n + 1 < config.rules.len() {
            checks.warn(path, "matches every letter, so the rules after it are never asked");
        }
    }
}
