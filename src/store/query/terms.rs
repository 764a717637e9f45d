//! The selection terms, the same in the query string, on the command line and in jobs.

use chrono::{DateTime, Utc};

use super::pattern::Pattern;
use crate::{clock, dead_letter::Status};

/// Names of the terms and what each selects.
pub const TERMS: [(&str, &str); 20] = [
    ("ids", "Letters by id; several with commas."),
    (
        "status",
        "FAILED, PENDING_RETRY, REPLAYING, REPLAYED, RESOLVED, DEAD, DISCARDED, DUPLICATE or REPEATED; several with commas.",
    ),
    ("service", "Service name. In texts * stands for anything."),
    ("team", "Team that owns the service."),
    ("event_type", "Event or task type."),
    ("source", "Source it was captured from."),
    ("broker", "Broker, by its name in the configuration."),
    ("dialect", "Framework whose words the letter speaks."),
    ("failure_group", "Number of the failure group; several with commas."),
    ("error_class", "Class of the error."),
    ("consumer", "Consumer that failed."),
    ("origin", "Original exchange, failed queue or original topic."),
    ("key", "Message key, or the original routing key."),
    ("message_id", "The message's own id."),
    ("since", "Captured at or after: 2h, 7d, a date, or RFC 3339."),
    ("until", "Captured before: the same."),
    ("payload", "JSONPath over the payload: $.total > 100, or $.items[*] ? (@.sku == \"A1\")."),
    ("header", "NAME=VALUE, or NAME for its presence."),
    ("text", "Words, all of them, in error, stack trace or payload."),
    ("replay_of", "Returns of this letter."),
];

/// Why a selection cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTerm {
    #[error("unknown selection term {name:?}{hint}")]
    Unknown { name: String, hint: String },
    #[error("{term}: {reason}")]
    Value { term: &'static str, reason: String },
}

/// One condition; a letter has to meet all of a filter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Ids(Vec<i64>),
    Status(Vec<Status>),
    /// Any of the columns is like any of the patterns.
    Text {
        columns: &'static [&'static str],
        patterns: Vec<Pattern>,
    },
    Key(Vec<Pattern>),
    Group(Vec<i64>),
    ReplayOf(Vec<i64>),
    Since(DateTime<Utc>),
    Until(DateTime<Utc>),
    Payload(String),
    Header {
        name: String,
        value: Option<Pattern>,
    },
    Words(Vec<String>),
}

/// A selection of letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) terms: Vec<Term>,
}

impl Filter {
    /// Reads `pairs` of names and values. The same name again widens the term (headers, paths and words narrow
    /// it); different names narrow the selection. An empty value is no condition, as in an empty form field.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>, now: DateTime<Utc>) -> Result<Self, BadTerm> {
        let mut filter = Self::default();
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.trim().is_empty()) {
            filter.add(name, value, now)?;
        }
        Ok(filter)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the selection looks into bodies, which not everybody may.
    #[must_use]
    pub fn reads_bodies(&self) -> bool {
        self.terms.iter().any(|term| matches!(term, Term::Payload(_) | Term::Words(_)))
    }

    fn add(&mut self, name: &str, value: &str, now: DateTime<Utc>) -> Result<(), BadTerm> {
        let time = |term| clock::parse(value, now).map_err(|error| BadTerm::Value { term, reason: error.to_string() });
        match name {
            "ids" | "id" => self.numbers("ids", value, Term::Ids),
            "failure_group" => self.numbers("failure_group", value, Term::Group),
            "replay_of" => self.numbers("replay_of", value, Term::ReplayOf),
            "status" => self.status(value),
            "key" => {
                self.any(Term::Key(vec![Pattern::parse(value)]));
                Ok(())
            }
            "since" => {
                self.terms.push(Term::Since(time("since")?));
                Ok(())
            }
            "until" => {
                self.terms.push(Term::Until(time("until")?));
                Ok(())
            }
            "payload" => {
                self.terms.push(Term::Payload(value.to_owned()));
                Ok(())
            }
            "header" => self.header(value),
            "text" => {
                self.terms.push(Term::Words(value.split_whitespace().map(str::to_owned).collect()));
                Ok(())
            }
            other => {
                let columns = text_columns(other).ok_or_else(|| unknown(other))?;
                self.any(Term::Text { columns, patterns: vec![Pattern::parse(value)] });
                Ok(())
            }
        }
    }

    fn numbers(&mut self, term: &'static str, value: &str, make: fn(Vec<i64>) -> Term) -> Result<(), BadTerm> {
        let number = |text: &str| {
            text.trim().parse().map_err(|_| BadTerm::Value { term, reason: format!("{:?} is no number", text.trim()) })
        };
        let numbers = value.split(',').map(number).collect::<Result<Vec<i64>, _>>()?;
        self.any(make(numbers));
        Ok(())
    }

    fn status(&mut self, value: &str) -> Result<(), BadTerm> {
        let status = |text: &str| {
            let words = || Status::ALL.map(Status::as_str).join(" ");
            Status::parse(text.trim()).ok_or_else(|| BadTerm::Value {
                term: "status",
                reason: format!("{:?} is no status; there are {}", text.trim(), words()),
            })
        };
        let statuses = value.split(',').map(status).collect::<Result<_, _>>()?;
        self.any(Term::Status(statuses));
        Ok(())
    }

    fn header(&mut self, value: &str) -> Result<(), BadTerm> {
        let (name, value) = match value.split_once('=') {
            Some((name, value)) => (name, Some(Pattern::parse(value))),
            None => (value, None),
        };
        if name.is_empty() {
            return Err(BadTerm::Value { term: "header", reason: "write NAME=VALUE, or NAME".to_owned() });
        }
        self.terms.push(Term::Header { name: name.to_owned(), value });
        Ok(())
    }

    /// Widens a term of the same kind, or adds it.
    fn any(&mut self, new: Term) {
        for term in &mut self.terms {
            match (term, &new) {
                (Term::Ids(have), Term::Ids(more))
                | (Term::Group(have), Term::Group(more))
                | (Term::ReplayOf(have), Term::ReplayOf(more)) => return have.extend(more),
                (Term::Status(have), Term::Status(more)) => return have.extend(more),
                (Term::Key(have), Term::Key(more)) => return have.extend(more.iter().cloned()),
                (Term::Text { columns, patterns }, Term::Text { columns: same, patterns: more }) if columns == same => {
                    return patterns.extend(more.iter().cloned());
                }
                _ => {}
            }
        }
        self.terms.push(new);
    }
}

fn text_columns(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "service" => &["service_name"],
        "team" => &["team"],
        "event_type" => &["event_type"],
        "source" => &["source"],
        "broker" => &["broker"],
        "dialect" => &["dialect"],
        "error_class" => &["error_class"],
        "consumer" => &["consumer"],
        "origin" => &["origin_exchange", "origin_queue", "origin_topic"],
        "message_id" => &["message_id"],
        _ => return None,
    })
}

fn unknown(name: &str) -> BadTerm {
    let near = TERMS.iter().map(|(term, _)| (*term, strsim::jaro_winkler(term, name)));
    let best = near.filter(|(_, nearness)| *nearness > 0.8).max_by(|a, b| a.1.total_cmp(&b.1));
    let hint = best.map(|(term, _)| format!("; did you mean {term}?")).unwrap_or_default();
    BadTerm::Unknown { name: name.to_owned(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Filter, BadTerm> {
        Filter::parse(pairs.iter().copied(), "2026-11-30T12:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn the_same_name_widens_and_commas_separate_words_and_numbers() {
        let filter = parse(&[
            ("status", "failed,DEAD"),
            ("status", "REPLAYED"),
            ("ids", "1, 2"),
            ("service", "a"),
            ("service", "b*"),
        ]);
        assert_eq!(
            filter.expect("a filter").terms,
            [
                Term::Status(vec![Status::Failed, Status::Dead, Status::Replayed]),
                Term::Ids(vec![1, 2]),
                Term::Text {
                    columns: &["service_name"],
                    patterns: vec![Pattern::Exact("a".into()), Pattern::Like("b%".into())]
                },
            ]
        );
    }

    #[test]
    fn every_listed_term_is_understood() {
        for (name, _) in TERMS {
            let value = match name {
                "status" => "DEAD",
                "since" | "until" => "7d",
                _ => "1",
            };
            assert_eq!(parse(&[(name, value)]).expect(name).terms.len(), 1, "{name}");
            assert!(parse(&[(name, "")]).expect(name).is_empty());
        }
    }

    #[test]
    fn a_fault_names_the_term_and_what_is_allowed() {
        let message = |pairs: &[(&str, &str)]| parse(pairs).expect_err("a fault").to_string();
        assert!(message(&[("status", "BROKEN")]).starts_with("status: \"BROKEN\" is no status; there are FAILED"));
        assert_eq!(message(&[("servise", "a")]), "unknown selection term \"servise\"; did you mean service?");
        assert_eq!(message(&[("ids", "1,x")]), "ids: \"x\" is no number");
        assert!(message(&[("since", "soon")]).starts_with("since: \"soon\" is no time"));
    }
}
