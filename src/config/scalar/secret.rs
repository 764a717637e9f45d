use std::fmt;

use super::{Scalar, scalar_text};

/// What stands for a secret wherever one would be shown.
pub const REDACTED: &str = "***";

/// A text that no output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself. Only for what sends it where it belongs.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Scalar for Secret {
    const ALLOWED: &'static str = "a text that is not empty";
    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err(String::new()) } else { Ok(Self(text.to_owned())) }
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

scalar_text!(Secret, "Secret", { "type": ["string", "number"], "minLength": 1 });
