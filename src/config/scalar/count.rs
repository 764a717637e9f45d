use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Count<MIN, MAX> {
    /// For defaults: a number out of range stops the build where this is used in a constant.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        assert!(number >= MIN && number <= MAX);
        Self(number)
    }

    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<const MIN: u32, const MAX: u32>;

        impl<const MIN: u32, const MAX: u32> serde::de::Visitor<'_> for Number<MIN, MAX> {
            type Value = Count<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let number = text.trim().parse().ok().filter(|number| (MIN..=MAX).contains(number));
                number.map(Count).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Number)
    }
}

impl<const MIN: u32, const MAX: u32> Serialize for Count<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl<const MIN: u32, const MAX: u32> schemars::JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Count_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

impl<const MIN: u32, const MAX: u32> fmt::Debug for Count<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<const MIN: u32, const MAX: u32> fmt::Display for Count<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
