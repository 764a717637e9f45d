//! The way from the root of a configuration to a value.

use std::fmt;

/// One step from a section to what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The way from the root to a value, shown as `sources[1].queue_type`.
#[derive(Clone, Default, PartialEq, Eq)]
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

/// A misplaced secret may be a step.
impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
