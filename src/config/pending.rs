//! What this version reads and checks, and does not act on yet. Whoever makes it act deletes its line here.

use super::{
    fault::Fault,
    path::{Path, Step},
    tree::{Node, Value},
};

/// Keys; `[]` is any entry of a list and `*` any name.
const PENDING: &[&str] = &[
    "database.read_url",
    "brokers.*.rabbitmq.management_url",
    "sources[].classifier",
    "owners",
    "rules",
    "routes",
    "alerts",
    "sources[].replay",
    "replay.in_doubt",
    "replay.sql_release_above",
];

/// Whether `key`, as written in the list above, is not acted on.
pub(super) fn is_pending(key: &str) -> bool {
    PENDING.contains(&key)
}

/// A warning for each of these keys that the configuration gives.
pub(super) fn warnings(tree: &Node) -> Vec<Fault> {
    let found = PENDING.iter().flat_map(|pattern| {
        let mut paths = Vec::new();
        collect(tree, &pattern.replace("[]", ".[]").split('.').collect::<Vec<_>>(), Path::default(), &mut paths);
        paths
    });
    found
        .map(|path| {
            let at = tree.locate(&path);
            Fault::new(path, at, "read and checked; not acted on by this version")
        })
        .collect()
}

fn collect(node: &Node, pattern: &[&str], path: Path, paths: &mut Vec<Path>) {
    let Some((first, rest)) = pattern.split_first() else {
        let is_empty = match &node.value {
            Value::Map(entries) => entries.is_empty(),
            Value::List(items) => items.is_empty(),
            Value::Scalar(_) | Value::Absent => node.is_null(),
        };
        if !is_empty {
            paths.push(path);
        }
        return;
    };
    let children: Vec<(Step, &Node)> = match &node.value {
        Value::Map(entries) => entries.iter().map(|entry| (Step::Key(entry.key.clone()), &entry.node)).collect(),
        Value::List(items) => items.iter().enumerate().map(|(n, node)| (Step::Index(n), node)).collect(),
        Value::Scalar(_) | Value::Absent => Vec::new(),
    };
    for (step, child) in children {
        let matches = match &step {
            Step::Index(_) => *first == "[]",
            Step::Key(name) => *first == "*" || *first == name,
        };
        if matches {
            let mut path = path.clone();
            path.0.push(step);
            collect(child, rest, path, paths);
        }
    }
}
