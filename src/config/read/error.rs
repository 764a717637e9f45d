//! serde's errors in the words of a person who writes YAML, without what was given where it may be a secret.

use serde::de;

use crate::config::{
    fault::{did_you_mean, given, suggestion},
    path::{Path, Step},
    tree::{Node, Value},
};

/// One fault on its way out to the root; `path` is collected innermost first.
#[derive(Debug)]
pub(in crate::config) struct Error {
    pub(super) path: Vec<Step>,
    pub(super) problem: Problem,
    pub(super) secret: bool,
}

#[derive(Debug)]
pub(super) enum Problem {
    UnknownKey { key: String, allowed: &'static [&'static str] },
    UnknownWord { word: String, allowed: &'static [&'static str] },
    Missing(&'static str),
    Type(String),
    Other(String),
}

impl Error {
    pub(super) fn new(problem: Problem) -> Self {
        Self { path: Vec::new(), problem, secret: false }
    }

    pub(super) fn under(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    pub(super) fn message(&self, tree: &Node, path: &Path) -> String {
        let given = || match tree.find(path) {
            Some(node) if !self.secret || node.is_null() => given(node),
            _ => String::new(),
        };
        match &self.problem {
            Problem::UnknownKey { key, allowed } => {
                format!("unknown key; {}", suggestion(key, allowed.iter().copied()))
            }
            Problem::UnknownWord { word, allowed } => {
                let all = allowed.join(", ");
                let meant = did_you_mean(word, allowed.iter().copied());
                let hint = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
                format!("{}allowed: {all}{hint}", given())
            }
            Problem::Missing("database") => {
                "`database` is required, as in: database: { url: \"${env:DLO_DATABASE_URL}\" }".to_owned()
            }
            Problem::Missing(name) => format!("`{name}` is required here"),
            // A text in the place of a section may be anything, a secret too.
            Problem::Type(expected) if expected.starts_with("a section") || expected == "a list" => {
                let is_text = tree.find(path).is_some_and(|node| node.scalar().is_some());
                format!("{}allowed: {expected}", if is_text { "given a text; ".to_owned() } else { given() })
            }
            Problem::Type(expected) => format!("{}allowed: {expected}", given()),
            Problem::Other(message) => {
                let is_text = tree.find(path).is_some_and(|node| matches!(node.value, Value::Scalar(_)));
                format!("{}{message}", if is_text { given() } else { String::new() })
            }
        }
    }
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty configuration")
    }
}

impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(Problem::Other(message.to_string()))
    }

    // What was given is shown, or not, by `message`: serde's own text would quote a secret.
    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Type(plain_words(&expected.to_string())))
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Type(plain_words(&expected.to_string())))
    }

    fn unknown_variant(word: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownWord { word: word.to_owned(), allowed })
    }

    fn unknown_field(key: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownKey { key: key.to_owned(), allowed })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(Problem::Missing(name))
    }
}

/// serde's words for what it expected, in those of a person who writes YAML.
fn plain_words(expected: &str) -> String {
    match expected {
        _ if expected.starts_with("struct ") || expected == "a map" => "a section of keys and values".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a string" | "string or map" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}
