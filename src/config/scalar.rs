//! Values written as one text: how they are read, shown, and described in the schema.

mod byte_size;
mod compare;
mod count;
mod duration;
mod glob;
mod listen;
mod pem;
mod percent;
mod rate;
mod secret;
mod topic;

pub use byte_size::ByteSize;
pub use compare::Compare;
pub use count::Count;
pub use duration::Duration;
pub use glob::{Glob, Globs};
pub use listen::Listen;
pub use pem::Pem;
pub use percent::Percent;
pub use rate::Rate;
pub use secret::{REDACTED, Secret};
pub use topic::{Start, Topic};

/// A text with a meaning. `Display` gives the text back, without secrets.
pub(super) trait Scalar: Sized {
    /// What is allowed, as in "allowed: a duration such as 10m".
    const ALLOWED: &'static str;
    /// Whether what was given must never be shown.
    const SECRET: bool = false;

    /// Reads the text; the reason when it cannot be read is empty where [`Self::ALLOWED`] says enough.
    fn parse(text: &str) -> Result<Self, String>;
}

/// The error for a text that cannot be read.
pub(super) fn refusal<T: Scalar>(reason: &str) -> String {
    match reason {
        "" => format!("allowed: {}", T::ALLOWED),
        reason => reason.to_owned(),
    }
}

/// serde through [`Scalar::parse`] and `Display`, and a place in the JSON Schema.
macro_rules! scalar_text {
    ($type:ty, $name:literal, $schema:tt) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::config::scalar::deserialize(deserializer)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(super) use scalar_text;

/// Through a newtype whose name tells [`super::read`] whether what was given may be shown.
pub(super) fn deserialize<'de, T: Scalar, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let name = if T::SECRET { super::read::SECRET } else { "scalar" };
    deserializer.deserialize_newtype_struct(name, Text(std::marker::PhantomData))
}

struct Text<T>(std::marker::PhantomData<T>);

impl<'de, T: Scalar> serde::de::Visitor<'de> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(T::ALLOWED)
    }

    fn visit_newtype_struct<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        T::parse(text).map_err(|reason| E::custom(refusal::<T>(&reason)))
    }
}
