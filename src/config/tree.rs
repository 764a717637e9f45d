//! A configuration as written: a tree of texts that remembers where each came from.

use std::fmt;

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

/// One step from a section to what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The way from the root to a value, shown as `sources[1].queue_type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// Reads `sources[1].queue`; a name with a dot in it cannot be written this way, use [`Path::key`].
    fn parse(text: &str) -> Self {
        let mut path = Self::default();
        for part in text.split('.').filter(|part| !part.is_empty()) {
            let (name, rest) = part.split_once('[').map_or((part, None), |(name, rest)| (name, Some(rest)));
            path.0.push(Step::Key(name.to_owned()));
            let index = rest.and_then(|rest| rest.trim_end_matches(']').parse().ok());
            path.0.extend(index.map(Step::Index));
        }
        path
    }

    pub(super) fn key(mut self, name: &str) -> Self {
        self.0.push(Step::Key(name.to_owned()));
        self
    }

    pub(super) fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(name) => {
                    f.write_str(if n > 0 { "." } else { "" })?;
                    match super::fault::shown(name) {
                        Some(name) if name.contains('.') => write!(f, "\"{name}\"")?,
                        Some(name) => f.write_str(&name)?,
                        None => f.write_str("(name not shown)")?,
                    }
                }
            }
        }
        Ok(())
    }
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

    /// Where `path` was written, or the nearest section around it that was.
    pub(super) fn locate(&self, path: &Path) -> At {
        let mut found = (self, self.at);
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
