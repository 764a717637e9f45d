use std::fmt;

use super::{Scalar, scalar_text};

/// A length of time: `10m`, `7d`, `1h 30m`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(std::time::Duration);

impl Duration {
    #[must_use]
    pub const fn secs(seconds: u64) -> Self {
        Self(std::time::Duration::from_secs(seconds))
    }

    #[must_use]
    pub const fn get(self) -> std::time::Duration {
        self.0
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

/// Longer than any meaning, and short enough that adding it to a time cannot overflow.
const MAX: std::time::Duration = std::time::Duration::from_secs(1000 * 366 * 86_400);

impl Scalar for Duration {
    const ALLOWED: &'static str = "a duration longer than zero, such as 30s, 10m, \"1h 30m\" or 90d";

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("a duration needs a unit; {}", super::refusal::<Self>("")));
        }
        let duration = humantime::parse_duration(text).map_err(|_| String::new())?;
        if duration.is_zero() || duration > MAX { Err(String::new()) } else { Ok(Self(duration)) }
    }
}

impl fmt::Display for Duration {
    /// In whole days, hours and minutes: humantime's months and years would not be what was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
        match units.iter().find(|(unit, _)| self.0.subsec_nanos() == 0 && seconds.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", seconds / unit),
            None => fmt::Display::fmt(&humantime::format_duration(self.0), f),
        }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

scalar_text!(Duration, "Duration", { "type": "string", "pattern": r"^\s*([0-9]+\s*[A-Za-zµ]+\s*)+$" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown_as_people_write_them() {
        for (text, seconds, shown) in
            [("10m", 600, "10m"), ("7d", 604_800, "7d"), ("1h 30m", 5_400, "90m"), ("90d", 7_776_000, "90d")]
        {
            assert_eq!(Duration::parse(text), Ok(Duration::secs(seconds)));
            assert_eq!(Duration::secs(seconds).to_string(), shown);
        }
        assert_eq!(Duration::parse("500ms").unwrap().to_string(), "500ms");
        for text in ["", "0s", "-1s", "ten minutes", "1000000000000y"] {
            assert!(Duration::parse(text).is_err(), "{text}");
        }
        assert!(Duration::parse("60").unwrap_err().contains("needs a unit"));
    }
}
