use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Scalar, scalar_text};

/// A pattern for a whole text: `*` stands for anything, `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    #[must_use]
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) = (self.0.chars().collect(), text.chars().collect());
        let (mut p, mut t) = (0, 0);
        // Where to go on when the last `*` must take one more character: behind it, and behind what it has taken.
        let mut retry = None;
        while t < text.len() {
            match pattern.get(p) {
                Some('*') => {
                    p += 1;
                    retry = Some((p, t));
                    continue;
                }
                Some('?') => {}
                Some(c) if *c == text[t] => {}
                _ => {
                    let Some((after_star, taken)) = retry else { return false };
                    retry = Some((after_star, taken + 1));
                    (p, t) = (after_star, taken + 1);
                    continue;
                }
            }
            (p, t) = (p + 1, t + 1);
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

impl Scalar for Glob {
    const ALLOWED: &'static str = "a text in which * stands for anything, such as \"billing*\"";

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err(String::new()) } else { Ok(Self(text.to_owned())) }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

scalar_text!(Glob, "Glob", { "type": ["string", "number"], "minLength": 1 });

/// One pattern or a list of them; one that matches is enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(with = "OneOrMany", inline)]
pub struct Globs(pub Vec<Glob>);

#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneOrMany {
    One(Glob),
    Many(Vec<Glob>),
}

impl Globs {
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(text))
    }
}

impl<'de> Deserialize<'de> for Globs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Both;

        impl<'de> serde::de::Visitor<'de> for Both {
            type Value = Globs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}, or a list of such texts", Glob::ALLOWED)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Globs, E> {
                let glob = Glob::parse(text).map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))?;
                Ok(Globs(vec![glob]))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Globs, A::Error> {
                let mut globs = Vec::new();
                while let Some(glob) = items.next_element()? {
                    globs.push(glob);
                }
                Ok(Globs(globs))
            }
        }

        deserializer.deserialize_any(Both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_matches_the_whole_text() {
        let matches = |pattern: &str, text| Glob::parse(pattern).unwrap().matches(text);
        assert!(matches("*Timeout*", "java.net.SocketTimeoutException"));
        assert!(matches("billing*", "billing") && !matches("billing*", "x-billing"));
        assert!(matches("*", "") && !matches("?", "") && matches("a?c", "aßc"));
        assert!(
            matches("*a*b", "xaab") && !matches("*a*b", "xaabc") && matches("a.b", "a.b") && !matches("a.b", "axb")
        );
    }

    proptest::proptest! {
        #[test]
        fn a_text_with_stars_put_in_still_matches(text in "[ab]{0,12}", at in 0usize..13, len in 0usize..13) {
            let (start, end) = (at.min(text.len()), (at + len).min(text.len()));
            let pattern = format!("{}*{}", &text[..start], &text[end..]);
            proptest::prop_assert!(Glob(pattern).matches(&text));
        }
    }
}
