//! From a tree to typed sections, with every fault found on the way.

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use super::{
    fault::{Fault, did_you_mean, given, suggestion},
    tree::{Node, Path, Scalar, Step, Value},
};

/// Scalars that may hold a secret deserialize as a newtype of this name, so that no error shows what was given.
pub(super) const SECRET: &str = "secret";

/// What came of reading a tree.
pub(super) struct Reading<T> {
    /// The value without its faulty parts; none where the root itself is at fault.
    pub(super) value: Option<T>,
    pub(super) faults: Vec<Fault>,
    /// Apart from keys that are not known the value is what was written: other checks mean something.
    pub(super) only_unknown_keys: bool,
}

/// Reads a whole tree. A faulty value is noted, taken out, and the reading begins again, so that one run finds all
/// faults. Values that were `found` faulty before are taken out first.
pub(super) fn read<T: DeserializeOwned>(original: &Node, found: Vec<Fault>) -> Reading<T> {
    let mut tree = original.clone();
    let (mut taken_out, mut misspelt): (Vec<Path>, Vec<Path>) = (Vec::new(), Vec::new());
    for fault in &found {
        tree.prune(fault.path());
        taken_out.push(fault.path().clone());
    }
    let mut only_unknown_keys = found.is_empty();
    let mut faults = found;
    loop {
        let error = match T::deserialize(&tree) {
            Ok(value) => return Reading { value: Some(value), faults, only_unknown_keys },
            Err(error) => error,
        };
        only_unknown_keys &= matches!(error.problem, Problem::UnknownKey { .. });
        let path = Path(error.path.iter().rev().cloned().collect());
        if let Problem::UnknownKey { key, allowed } = &error.problem
            && let Some(meant) = did_you_mean(key, allowed.iter().copied())
        {
            let mut sibling = path.clone();
            sibling.0.pop();
            misspelt.push(sibling.key(meant));
        }
        let missing = match error.problem {
            Problem::Missing(name) => Some(path.clone().key(name)),
            _ => None,
        };
        // A required key that is missing only because its own fault took it out has been told already.
        if !missing.as_ref().is_some_and(|key| taken_out.contains(key) || misspelt.contains(key)) {
            faults.push(Fault::new(path.clone(), original.locate(&path), error.message(original, &path)));
        }
        if !tree.prune(&path) {
            return Reading { value: None, faults, only_unknown_keys };
        }
        taken_out.push(path);
    }
}

/// One fault on its way out to the root; `path` is collected innermost first.
#[derive(Debug)]
pub(super) struct Error {
    path: Vec<Step>,
    problem: Problem,
    secret: bool,
}

#[derive(Debug)]
enum Problem {
    UnknownKey { key: String, allowed: &'static [&'static str] },
    UnknownWord { word: String, allowed: &'static [&'static str] },
    Missing(&'static str),
    Type(String),
    Other(String),
}

impl Error {
    fn new(problem: Problem) -> Self {
        Self { path: Vec::new(), problem, secret: false }
    }

    fn under(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    fn message(&self, tree: &Node, path: &Path) -> String {
        let given = || match tree.find(path) {
            Some(node) if !self.secret || node.is_null() => given(node),
            _ => String::new(),
        };
        match &self.problem {
            Problem::UnknownKey { key, allowed } => {
                format!("unknown key; {}", suggestion(key, allowed.iter().copied()))
            }
            Problem::UnknownWord { word, allowed } => {
                let all = allowed.join(", ");
                let meant = did_you_mean(word, allowed.iter().copied());
                let hint = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
                format!("{}allowed: {all}{hint}", given())
            }
            Problem::Missing(name) => format!("`{name}` is required here"),
            Problem::Type(expected) => format!("{}allowed: {expected}", given()),
            Problem::Other(message) => format!("{}{message}", given()),
        }
    }
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty configuration")
    }
}

impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(Problem::Other(message.to_string()))
    }

    // What was given is shown, or not, by `message`: serde's own text would quote a secret.
    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Type(plain_words(&expected.to_string())))
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Type(plain_words(&expected.to_string())))
    }

    fn unknown_variant(word: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownWord { word: word.to_owned(), allowed })
    }

    fn unknown_field(key: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownKey { key: key.to_owned(), allowed })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(Problem::Missing(name))
    }
}

/// serde's words for what it expected, in those of a person who writes YAML.
fn plain_words(expected: &str) -> String {
    match expected {
        _ if expected.starts_with("struct ") || expected == "a map" => "a section of keys and values".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a string" | "string or map" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

impl Node {
    /// The text of a scalar; anything else is for the visitor to refuse.
    fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) if !scalar.is_null() => Some(scalar),
            _ => None,
        }
    }

    fn refuse<'de, V: Visitor<'de>>(&self, visitor: &V) -> Error {
        de::Error::invalid_type(de::Unexpected::Unit, visitor)
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $what:literal),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.scalar().and_then(|scalar| scalar.text.trim().parse().ok());
            number.map_or_else(|| Err(Error::new(Problem::Type($what.to_owned()))), |number| visitor.$visit(number))
        }
    )*};
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

    numbers! {
        deserialize_i8 visit_i8 "a whole number", deserialize_i16 visit_i16 "a whole number",
        deserialize_i32 visit_i32 "a whole number", deserialize_i64 visit_i64 "a whole number",
        deserialize_u8 visit_u8 "a whole number from 0 to 255", deserialize_u16 visit_u16 "a whole number from 0 to 65535",
        deserialize_u32 visit_u32 "a whole number", deserialize_u64 visit_u64 "a whole number",
        deserialize_f32 visit_f32 "a number", deserialize_f64 visit_f64 "a number"
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
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
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

struct Entries<'de>(std::slice::Iter<'de, super::tree::Entry>, Option<&'de super::tree::Entry>);

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
