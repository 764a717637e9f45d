use std::fmt;

use super::{Scalar, scalar_text};

/// A share from `0%` to `100%`.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    #[must_use]
    pub const fn new(percent: u8) -> Self {
        assert!(percent <= 100);
        Self(percent as f64)
    }

    /// From 0 to 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl Scalar for Percent {
    const ALLOWED: &'static str = "a share from 0% to 100%";

    fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').ok_or_else(String::new)?.trim();
        let percent: f64 = number.parse().map_err(|_| String::new())?;
        if (0.0..=100.0).contains(&percent) { Ok(Self(percent)) } else { Err(String::new()) }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl fmt::Debug for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

scalar_text!(Percent, "Percent", { "type": "string", "pattern": r"^\s*[0-9.]+\s*%\s*$" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_needs_its_sign_and_its_range() {
        assert_eq!(Percent::parse("10%").map(Percent::fraction), Ok(0.1));
        assert_eq!(Percent::parse("2.5 %").map(|percent| percent.to_string()), Ok("2.5%".to_owned()));
        for text in ["10", "101%", "-1%", "NaN%", "%"] {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
    }
}
