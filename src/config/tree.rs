//! A configuration as written: a tree of texts that remembers where each came from.

use super::path::{Path, Step};

/// Where a value was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum At {
    #[default]
    Unknown,
    Line {
        line: usize,
        column: usize,
    },
    /// The environment variable that gave it, where there is no file.
    Env(&'static str),
}

#[derive(Clone)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
}

#[derive(Clone)]
pub(super) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Found faulty and taken out; keeps the numbering of a list.
    Absent,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: At,
    pub(super) node: Node,
}

#[derive(Clone)]
pub(super) struct Scalar {
    pub(super) text: String,
    /// Without quotes, so that `~`, `null` and nothing mean nothing.
    pub(super) plain: bool,
    /// What stood in the file where `text` came from `${…}`; the only thing an error may show.
    pub(super) written: Option<String>,
}

impl Node {
    pub(super) fn text(at: At, text: impl Into<String>) -> Self {
        Self { at, value: Value::Scalar(Scalar { text: text.into(), plain: false, written: None }) }
    }

    pub(super) fn map(at: At, entries: impl IntoIterator<Item = (&'static str, Node)>) -> Self {
        let entry = |(key, node): (&str, Node)| Entry { key: key.to_owned(), at: node.at, node };
        Self { at, value: Value::Map(entries.into_iter().map(entry).collect()) }
    }

    pub(super) fn list(at: At, items: impl IntoIterator<Item = Node>) -> Self {
        Self { at, value: Value::List(items.into_iter().collect()) }
    }

    pub(super) fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar(scalar) => scalar.is_null(),
            Value::Absent => true,
            Value::List(_) | Value::Map(_) => false,
        }
    }

    fn child(&self, step: &Step) -> Option<(&Self, At)> {
        match (&self.value, step) {
            (Value::Map(entries), Step::Key(name)) => {
                entries.iter().find(|entry| entry.key == *name).map(|entry| (&entry.node, entry.at))
            }
            (Value::List(items), Step::Index(index)) => items.get(*index).map(|node| (node, node.at)),
            _ => None,
        }
    }

    pub(super) fn find(&self, path: &Path) -> Option<&Self> {
        path.0.iter().try_fold(self, |node, step| node.child(step).map(|(node, _)| node))
    }

    /// Where `path` was written, or the nearest section around it that was; the whole file has no place.
    pub(super) fn locate(&self, path: &Path) -> At {
        let mut found = (self, At::Unknown);
        for step in &path.0 {
            let Some(child) = found.0.child(step) else { break };
            found = child;
        }
        found.1
    }

    /// Takes a value out, so that reading can go on to the next fault. False at the root.
    pub(super) fn prune(&mut self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut node = self;
        for step in parents {
            let next = match (&mut node.value, step) {
                (Value::Map(entries), Step::Key(name)) => {
                    entries.iter_mut().find(|entry| entry.key == *name).map(|entry| &mut entry.node)
                }
                (Value::List(items), Step::Index(index)) => items.get_mut(*index),
                _ => None,
            };
            let Some(next) = next else { return false };
            node = next;
        }
        match (&mut node.value, last) {
            (Value::Map(entries), Step::Key(name)) => {
                let before = entries.len();
                entries.retain(|entry| entry.key != *name);
                entries.len() < before
            }
            (Value::List(items), Step::Index(index)) => {
                let item = items.get_mut(*index).filter(|item| !matches!(item.value, Value::Absent));
                item.map(|item| item.value = Value::Absent).is_some()
            }
            _ => false,
        }
    }
}

impl Scalar {
    pub(super) fn is_null(&self) -> bool {
        self.plain && self.written.is_none() && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}
