//! serde over the tree. A scalar is a text; its target decides what it means.

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use super::{
    SECRET,
    error::{Error, Problem},
};
use crate::config::{
    path::Step,
    tree::{Entry, Node, Scalar, Value},
};

impl Node {
    /// The text of a scalar; anything else is for the visitor to refuse.
    pub(super) fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) if !scalar.is_null() => Some(scalar),
            _ => None,
        }
    }

    fn refuse<'de, V: Visitor<'de>>(&self, visitor: &V) -> Error {
        de::Error::invalid_type(de::Unexpected::Unit, visitor)
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Absent => visitor.visit_unit(),
            Value::Scalar(scalar) if scalar.is_null() => visitor.visit_unit(),
            Value::Scalar(scalar) => visitor.visit_borrowed_str(&scalar.text),
            Value::List(items) => {
                visitor.visit_seq(Items(items.iter().enumerate().filter(|(_, node)| !is_absent(node)).collect(), 0))
            }
            Value::Map(entries) => visitor.visit_map(Entries(entries.iter(), None)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scalar() {
            Some(scalar) => visitor.visit_borrowed_str(&scalar.text),
            None => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scalar().map(|scalar| scalar.text.as_str()) {
            Some("true" | "True" | "TRUE") => visitor.visit_bool(true),
            Some("false" | "False" | "FALSE") => visitor.visit_bool(false),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self).map_err(|error| Error { secret: error.secret || name == SECRET, ..error })
    }

    /// A section whose keys are all commented out is an empty section.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Map(entries) => visitor.visit_map(Entries(entries.iter(), None)),
            _ if self.is_null() => visitor.visit_map(Entries([].iter(), None)),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::List(_) => self.deserialize_any(visitor),
            _ if self.is_null() => visitor.visit_seq(Items(Vec::new(), 0)),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        allowed: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.scalar() {
            Some(scalar) => visitor.visit_enum(scalar.text.as_str().into_deserializer()),
            None => Err(Error::new(Problem::UnknownWord { word: String::new(), allowed })),
        }
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

fn is_absent(node: &Node) -> bool {
    matches!(node.value, Value::Absent)
}

struct Items<'de>(Vec<(usize, &'de Node)>, usize);

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, node)) = self.0.get(self.1) else { return Ok(None) };
        self.1 += 1;
        seed.deserialize(*node).map(Some).map_err(|error| error.under(Step::Index(*index)))
    }
}

struct Entries<'de>(std::slice::Iter<'de, Entry>, Option<&'de Entry>);

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.1 = self.0.next();
        let Some(entry) = self.1 else { return Ok(None) };
        let key = de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some).map_err(|error: Error| error.under(Step::Key(entry.key.clone())))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(entry) = self.1 else { return Err(de::Error::custom("a value without a key")) };
        seed.deserialize(&entry.node).map_err(|error| error.under(Step::Key(entry.key.clone())))
    }
}
