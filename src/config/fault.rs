//! What is wrong with a configuration, all of it at once, without a secret in it.

use std::fmt;

use super::{
    path::Path,
    tree::{At, Node, Value},
};

/// Longer texts are cut when an error shows what was given.
const SHOWN_MAX: usize = 60;

/// Every fault found in one configuration; `Display` gives one line each, in the order of the file.
#[derive(Clone, Debug)]
pub struct ConfigErrors {
    file: Option<String>,
    faults: Vec<Fault>,
}

/// One fault: where, which key, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    path: Path,
    at: At,
    message: String,
}

impl Fault {
    pub(super) fn new(path: Path, at: At, message: impl Into<String>) -> Self {
        Self { path, at, message: message.into() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl ConfigErrors {
    pub(super) fn new(file: Option<&str>, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| match fault.at {
            At::Line { line, column } => (line, column),
            At::Unknown | At::Env(_) => (0, 0),
        });
        faults.dedup();
        Self { file: file.map(str::to_owned), faults }
    }

    /// How many faults there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.faults.len()
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.faults.iter().enumerate() {
            f.write_str(if n > 0 { "\n" } else { "" })?;
            fault.write(self.file.as_deref(), f)?;
        }
        Ok(())
    }
}

impl Fault {
    /// `dlo.yaml:12:5: sources[1].queue_typ: unknown key; did you mean "queue_type"?`
    fn write(&self, file: Option<&str>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at, file) {
            (At::Env(name), _) => return write!(f, "{name}: {}", self.message),
            (At::Line { line, column }, Some(file)) => write!(f, "{file}:{line}:{column}: ")?,
            (At::Unknown, Some(file)) => write!(f, "{file}: ")?,
            (At::Unknown | At::Line { .. }, None) => {}
        }
        if !self.path.0.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }

    /// The line alone, for warnings.
    pub(super) fn line(&self, file: Option<&str>) -> String {
        struct Line<'a>(&'a Fault, Option<&'a str>);
        impl fmt::Display for Line<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(self.1, f)
            }
        }
        Line(self, file).to_string()
    }
}

/// The text if it may be shown: nothing that looks like an address, cut when long.
pub(super) fn shown(text: &str) -> Option<String> {
    if text.contains("://") || text.contains('@') || text.chars().any(char::is_control) {
        return None;
    }
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    Some(if cut.len() < text.len() { format!("{cut}…") } else { cut })
}

/// `given "x"; ` for an error about a value, or nothing where it must not be shown.
pub(super) fn given(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) if scalar.is_null() => "given nothing; ".to_owned(),
        Value::Scalar(scalar) => {
            let text = shown(scalar.written.as_deref().unwrap_or(&scalar.text));
            text.map_or_else(|| "the value given is not shown; ".to_owned(), |text| format!("given \"{text}\"; "))
        }
        Value::List(_) => "given a list; ".to_owned(),
        Value::Map(_) => "given a section; ".to_owned(),
        Value::Absent => String::new(),
    }
}

/// The allowed name that was most likely meant.
pub(super) fn did_you_mean<'a>(name: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let wanted = plain(name);
    let scored = allowed.into_iter().map(|other| (strsim::damerau_levenshtein(&wanted, &plain(other)), other));
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    let close = distance <= (wanted.chars().count() / 3).max(1);
    let part = wanted.len() >= 3 && (plain(best).starts_with(&wanted) || wanted.starts_with(&plain(best)));
    (close || part).then_some(best)
}

/// `did you mean "x"?`, else the list of what is allowed.
pub(super) fn suggestion<'a>(name: &str, allowed: impl IntoIterator<Item = &'a str> + Clone) -> String {
    did_you_mean(name, allowed.clone()).map_or_else(
        || format!("allowed: {}", allowed.into_iter().collect::<Vec<_>>().join(", ")),
        |best| format!("did you mean \"{best}\"?"),
    )
}
