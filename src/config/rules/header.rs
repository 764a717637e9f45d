use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Unexpected, Visitor},
};

use crate::config::scalar::{Glob, Scalar};

/// Headers that must be there, each with a value that matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Written", inline)]
pub struct Headers(pub Vec<(String, Glob)>);

/// As `NAME=VALUE`, a list of such texts, or a section.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Written {
    One(String),
    Many(Vec<String>),
    Section(std::collections::BTreeMap<String, Glob>),
}

impl Headers {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Headers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NAME=VALUE, a list of such texts, or a section of names and values")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Headers, E> {
        let refuse = || E::invalid_value(Unexpected::Str(text), &self);
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(refuse)?;
        Ok(Headers(vec![(name.to_owned(), Glob::parse(value).map_err(|_| refuse())?)]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Headers, A::Error> {
        let mut all = Headers::default();
        while let Some(Headers(one)) = items.next_element()? {
            all.0.extend(one);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Headers, A::Error> {
        let mut all = Headers::default();
        while let Some(entry) = entries.next_entry()? {
            all.0.push(entry);
        }
        Ok(all)
    }
}
