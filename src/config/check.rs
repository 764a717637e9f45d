//! Checks of one key against another, before any port is opened.

use std::collections::BTreeSet;

use super::{Config, fault::Fault, path::Path, tree::Node};

/// Collects what the sections find wrong or doubtful; knows where each key was written.
pub(super) struct Checks<'a> {
    tree: &'a Node,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(tree: &'a Node) -> Self {
        Self { tree, faults: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn fault(&mut self, path: impl Into<Path>, message: impl Into<String>) {
        let path = path.into();
        self.faults.push(Fault::new(path.clone(), self.tree.locate(&path), message));
    }

    pub(super) fn warn(&mut self, path: impl Into<Path>, message: impl Into<String>) {
        let path = path.into();
        self.warnings.push(Fault::new(path.clone(), self.tree.locate(&path), message));
    }

    /// Whether the key was written at all, as opposed to having its default.
    pub(super) fn is_given(&self, path: &Path) -> bool {
        self.tree.find(path).is_some_and(|node| !node.is_null())
    }

    /// Names that must differ, told by the path of the later one.
    pub(super) fn unique<'n>(&mut self, names: impl IntoIterator<Item = (Path, &'n str)>) {
        let mut seen = BTreeSet::new();
        for (path, name) in names {
            if !seen.insert(name) {
                self.fault(path, format!("the name \"{name}\" is taken by another one above"));
            }
        }
    }

    /// Names become label values and parts of addresses.
    pub(super) fn name(&mut self, path: Path, name: &str) {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(legal) {
            let given = super::fault::shown(name).map_or_else(String::new, |name| format!("given \"{name}\"; "));
            self.fault(path, format!("{given}allowed: 1 to 64 of a-z, 0-9, `_`, `.` and `-`"));
        }
    }
}

/// Every section against the others.
pub(super) fn check(config: &Config, checks: &mut Checks<'_>) {
    config.database.check(checks);
    for (name, broker) in &config.brokers {
        broker.check(name, checks);
    }
    super::sources::check(config, checks);
    super::owners::check(&config.owners, checks);
    config.capture.check(config, checks);
    super::rules::check(config, checks);
    super::routes::check(config, checks);
    super::alerts::check(&config.alerts, checks);
    config.http.check(checks);
    config.metrics.check(&config.http, checks);
    config.log.check(checks);
}
