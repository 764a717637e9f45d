use std::fmt;

use super::{Scalar, scalar_text};

/// How often something may happen: `100/s`, `6000/m`, `1000/h`, or `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    Unlimited,
    Limited { count: u32, per: Per },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    Second,
    Minute,
    Hour,
}

impl Rate {
    #[must_use]
    pub const fn per_second(count: u32) -> Self {
        Self::Limited { count, per: Per::Second }
    }

    /// How many a second; `None` is unlimited.
    #[must_use]
    pub fn events_per_second(self) -> Option<f64> {
        match self {
            Self::Unlimited => None,
            Self::Limited { count, per: Per::Second } => Some(f64::from(count)),
            Self::Limited { count, per: Per::Minute } => Some(f64::from(count) / 60.0),
            Self::Limited { count, per: Per::Hour } => Some(f64::from(count) / 3600.0),
        }
    }
}

impl Scalar for Rate {
    const ALLOWED: &'static str = "a rate such as 100/s, 6000/m or 1000/h, or unlimited";

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim() == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let (count, unit) = text.split_once('/').ok_or_else(String::new)?;
        let per = match unit.trim() {
            "s" | "sec" | "second" => Per::Second,
            "m" | "min" | "minute" => Per::Minute,
            "h" | "hour" => Per::Hour,
            _ => return Err(String::new()),
        };
        match count.trim().parse() {
            Ok(count) if count > 0 => Ok(Self::Limited { count, per }),
            _ => Err(String::new()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Limited { count, per: Per::Second } => write!(f, "{count}/s"),
            Self::Limited { count, per: Per::Minute } => write!(f, "{count}/m"),
            Self::Limited { count, per: Per::Hour } => write!(f, "{count}/h"),
        }
    }
}

scalar_text!(Rate, "Rate", {
    "type": "string",
    "pattern": r"^\s*(unlimited|[0-9]+\s*/\s*(s|sec|second|m|min|minute|h|hour))\s*$"
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_per_unit_or_unlimited() {
        assert_eq!(Rate::parse("100/s").map(Rate::events_per_second), Ok(Some(100.0)));
        assert_eq!(Rate::parse("6000 / m").map(Rate::events_per_second), Ok(Some(100.0)));
        assert_eq!(Rate::parse("unlimited"), Ok(Rate::Unlimited));
        for text in ["100", "0/s", "-1/s", "1/day", "/s", "none"] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }
}
