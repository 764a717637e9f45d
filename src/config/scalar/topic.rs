use std::fmt;

use chrono::{DateTime, FixedOffset, SecondsFormat};

use super::{Scalar, scalar_text};

/// A Kafka topic, or with `^` in front a regular expression for topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    Name(String),
    /// With its `^`.
    Pattern(String),
}

impl Topic {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Name(text) | Self::Pattern(text) => text,
        }
    }

    /// Whether a topic may have this name.
    #[must_use]
    pub fn is_name(text: &str) -> bool {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        (1..=249).contains(&text.len()) && text.bytes().all(legal) && text != "." && text != ".."
    }
}

impl Scalar for Topic {
    const ALLOWED: &'static str =
        "a topic (letters, digits, . _ -, at most 249), or a regular expression that begins with ^";

    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > 1 && text.starts_with('^') {
            let compiled = regex::Regex::new(text).map(|_| Self::Pattern(text.to_owned()));
            // Its last line says what is wrong; those before draw the place.
            return compiled.map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned());
        }
        if Self::is_name(text) { Ok(Self::Name(text.to_owned())) } else { Err(String::new()) }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

scalar_text!(Topic, "Topic", { "type": "string", "pattern": r"^(\^.+|[A-Za-z0-9._-]{1,249})$" });

/// Where a group begins that has no position yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest record the broker still has.
    Earliest,
    /// With the first record that comes after dlo.
    Latest,
    /// With the first record not older than this.
    Time(DateTime<FixedOffset>),
}

impl Scalar for Start {
    const ALLOWED: &'static str = "earliest, latest, or a time such as 2026-01-31T08:00:00Z";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            time => DateTime::parse_from_rfc3339(time).map(Self::Time).map_err(|_| String::new()),
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Time(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
        }
    }
}

scalar_text!(Start, "Start", { "type": "string", "pattern": r"^(earliest|latest|[0-9]{4}-.*)$" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_marks_a_regular_expression() {
        assert_eq!(Topic::parse("payments-dlt"), Ok(Topic::Name("payments-dlt".to_owned())));
        assert_eq!(Topic::parse(r"^retail\..*$"), Ok(Topic::Pattern(r"^retail\..*$".to_owned())));
        for text in ["", "^", "a b", "orders*", "..", &"x".repeat(250)] {
            assert!(Topic::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_start_is_a_word_or_a_time() {
        assert_eq!(Start::parse("latest"), Ok(Start::Latest));
        assert_eq!(Start::parse("2026-01-31T08:00:00Z").unwrap().to_string(), "2026-01-31T08:00:00Z");
        assert!(Start::parse("yesterday").is_err());
    }
}
