//! Time as an argument: the only place that asks the machine.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

/// Tells the time of day: the system's, or one that a test turns.
#[derive(Clone, Debug)]
pub struct Clock(Option<Arc<Mutex<DateTime<Utc>>>>);

impl Clock {
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// Stands still until [`Clock::set`].
    #[must_use]
    pub fn manual(now: DateTime<Utc>) -> Self {
        Self(Some(Arc::new(Mutex::new(now))))
    }

    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        match &self.0 {
            Some(now) => *now.lock().unwrap_or_else(PoisonError::into_inner),
            #[expect(clippy::disallowed_methods, reason = "the one place")]
            None => Utc::now(),
        }
    }

    /// Turns a manual clock; the system's goes its own way.
    pub fn set(&self, to: DateTime<Utc>) {
        if let Some(now) = &self.0 {
            *now.lock().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }
}

/// Why a text is not a point in time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is no time; write 2h or 7d (ago), 2026-11-30, or 2026-11-30T12:00:00Z")]
pub struct BadTime(pub String);

/// A point in time as people write it: `2h` and `7d` before `now`, a date (its first instant in UTC), RFC 3339.
pub fn parse(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, BadTime> {
    let bad = || BadTime(text.to_owned());
    let text = text.trim();
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    if let Ok(date) = text.parse::<chrono::NaiveDate>() {
        return Ok(date.and_time(chrono::NaiveTime::MIN).and_utc());
    }
    let ago = humantime::parse_duration(text).map_err(|_| bad())?;
    let ago = chrono::Duration::from_std(ago).map_err(|_| bad())?;
    now.checked_sub_signed(ago).ok_or_else(bad)
}

/// How long ago, in one unit: `42s`, `17m`, `5h`, `9d`. What lies ahead is `now`.
#[must_use]
pub fn age(since: DateTime<Utc>, now: DateTime<Utc>) -> String {
    match (now - since).num_seconds() {
        ..=0 => "now".to_owned(),
        s @ 1..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m", s / 60),
        s @ 3600..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = at("2026-11-30T12:00:00Z");
        assert_eq!(parse("2h", now), Ok(at("2026-11-30T10:00:00Z")));
        assert_eq!(parse("7d", now), Ok(at("2026-11-23T12:00:00Z")));
        assert_eq!(parse("2026-11-01", now), Ok(at("2026-11-01T00:00:00Z")));
        assert_eq!(parse("2026-11-01T01:00:00+01:00", now), Ok(at("2026-11-01T00:00:00Z")));
        assert!(parse("yesterday", now).is_err());
        assert!(parse("9999999999999y", now).is_err());
    }

    #[test]
    fn ages_have_one_unit() {
        let now = at("2026-11-30T12:00:00Z");
        let ages = [
            "2026-11-30T12:00:05Z",
            "2026-11-30T11:59:18Z",
            "2026-11-30T11:00:01Z",
            "2026-11-29T12:00:00Z",
            "2026-11-21T12:00:00Z",
        ];
        assert_eq!(ages.map(|then| age(at(then), now)), ["now", "42s", "59m", "24h", "9d"]);
    }
}
