//! A text or a glob: `*` is any run of characters, `\*` is a star.

/// What a selection term compares a column with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(String),
    /// In the form that LIKE reads.
    Like(String),
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Self {
        let (mut exact, mut like, mut glob) = (String::new(), String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let literal = match c {
                '*' => {
                    glob = true;
                    like.push('%');
                    continue;
                }
                '\\' if chars.peek() == Some(&'*') => chars.next().unwrap_or(c),
                other => other,
            };
            exact.push(literal);
            push_literal(&mut like, literal);
        }
        if glob { Self::Like(like) } else { Self::Exact(exact) }
    }
}

fn push_literal(like: &mut String, c: char) {
    if matches!(c, '%' | '_' | '\\') {
        like.push('\\');
    }
    like.push(c);
}

/// The LIKE form of "holds this word".
pub(super) fn holds(word: &str) -> String {
    let mut like = String::from("%");
    word.chars().for_each(|c| push_literal(&mut like, c));
    like.push('%');
    like
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_anything_and_everything_else_is_itself() {
        assert_eq!(Pattern::parse("billing"), Pattern::Exact("billing".into()));
        assert_eq!(Pattern::parse("bill*"), Pattern::Like("bill%".into()));
        assert_eq!(Pattern::parse("*50%_a\\b*"), Pattern::Like("%50\\%\\_a\\\\b%".into()));
        assert_eq!(Pattern::parse("a\\*b"), Pattern::Exact("a*b".into()));
        assert_eq!(holds("5%"), "%5\\%%");
    }
}
