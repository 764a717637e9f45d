use std::fmt;

use super::{Scalar, scalar_text};

/// A condition on a number: `<10`, `<=3`, `>5`, `>=1`, or `4` for exactly that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    relation: Relation,
    number: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Compare {
    #[must_use]
    pub fn holds(self, number: i64) -> bool {
        match self.relation {
            Relation::Less => number < self.number,
            Relation::LessOrEqual => number <= self.number,
            Relation::Equal => number == self.number,
            Relation::GreaterOrEqual => number >= self.number,
            Relation::Greater => number > self.number,
        }
    }
}

impl Scalar for Compare {
    const ALLOWED: &'static str = "a comparison such as \"<10\", \">=3\" or \"4\"";

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let relations = [
            ("<=", Relation::LessOrEqual),
            (">=", Relation::GreaterOrEqual),
            ("<", Relation::Less),
            (">", Relation::Greater),
            ("=", Relation::Equal),
            ("", Relation::Equal),
        ];
        let read = |(sign, relation)| text.strip_prefix(sign).map(|number| (relation, number));
        let (relation, number) = relations.into_iter().find_map(read).ok_or_else(String::new)?;
        Ok(Self { relation, number: number.trim().parse().map_err(|_| String::new())? })
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.relation {
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Equal => "",
            Relation::GreaterOrEqual => ">=",
            Relation::Greater => ">",
        };
        write!(f, "{sign}{}", self.number)
    }
}

scalar_text!(Compare, "Compare", {
    "anyOf": [{ "type": "string", "pattern": r"^\s*(<=|>=|<|>|=)?\s*[0-9]+\s*$" }, { "type": "integer" }]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_hold_where_they_say() {
        let holds = |text, number| Compare::parse(text).unwrap().holds(number);
        assert!(holds("<10", 9) && !holds("<10", 10) && holds("<= 10", 10));
        assert!(holds(">=3", 3) && !holds(">3", 3) && holds("4", 4) && !holds("=4", 5));
        for text in ["", "<", "ten", "<>3", "!=3"] {
            assert!(Compare::parse(text).is_err(), "{text}");
        }
    }
}
