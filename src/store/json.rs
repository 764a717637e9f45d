//! Whether PostgreSQL will take some bytes as `jsonb`, asked before COPY does: one row it refuses fails a batch.
//!
//! The same grammar as the server's parser, and the same extra refusals: `\u0000`, lone surrogates, invalid
//! UTF-8. Without recursion, so that nesting costs nothing here. What depends on the server's settings or on
//! sizes (depth against `max_stack_depth`, numbers beyond `numeric`, strings beyond 256 MB) is left to it:
//! such a row is found by halving the batch.

/// Whether `bytes` is one JSON value that `jsonb` can hold.
#[must_use]
pub fn is_jsonb(bytes: &[u8]) -> bool {
    // Most bodies that are not JSON show it in their first byte, before the pass over all of them for UTF-8.
    let first = bytes.iter().find(|b| !is_space(**b));
    let begins = matches!(first, Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'));
    begins && std::str::from_utf8(bytes).is_ok() && Scanner { bytes, at: 0 }.document().is_some()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// One value and nothing but space behind it.
    fn document(&mut self) -> Option<()> {
        let mut open: Vec<Container> = Vec::new();
        loop {
            self.open_containers(&mut open)?;
            // A value has just ended: close what ends here, or go on to the next member.
            loop {
                self.space();
                let Some(container) = open.last().copied() else {
                    return (self.at == self.bytes.len()).then_some(());
                };
                match (self.next()?, container) {
                    (b',', Container::Array) => break,
                    (b',', Container::Object) => {
                        self.space();
                        self.member_name()?;
                        break;
                    }
                    (b']', Container::Array) | (b'}', Container::Object) => {
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Reads up to the end of the next scalar or empty container, remembering what was opened on the way.
    fn open_containers(&mut self, open: &mut Vec<Container>) -> Option<()> {
        loop {
            self.space();
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    self.space();
                    if self.peek()? == b'}' {
                        self.at += 1;
                        return Some(());
                    }
                    open.push(Container::Object);
                    self.member_name()?;
                }
                b'[' => {
                    self.at += 1;
                    self.space();
                    if self.peek()? == b']' {
                        self.at += 1;
                        return Some(());
                    }
                    open.push(Container::Array);
                }
                b'"' => return self.string(),
                b't' => return self.word(b"true"),
                b'f' => return self.word(b"false"),
                b'n' => return self.word(b"null"),
                _ => return self.number(),
            }
        }
    }

    fn member_name(&mut self) -> Option<()> {
        self.string()?;
        self.space();
        (self.next()? == b':').then_some(())
    }

    fn string(&mut self) -> Option<()> {
        (self.next()? == b'"').then_some(())?;
        loop {
            let rest = &self.bytes[self.at..];
            let plain = memchr::memchr2(b'"', b'\\', rest)?;
            // A loop of its own: it vectorises.
            if rest[..plain].iter().any(|byte| *byte < 0x20) {
                return None;
            }
            self.at += plain + 1;
            if rest[plain] == b'"' {
                return Some(());
            }
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => match self.hex4()? {
                0 | 0xdc00..=0xdfff => None,
                0xd800..=0xdbff => {
                    (self.next()? == b'\\' && self.next()? == b'u').then_some(())?;
                    matches!(self.hex4()?, 0xdc00..=0xdfff).then_some(())
                }
                _ => Some(()),
            },
            _ => None,
        }
    }

    fn hex4(&mut self) -> Option<u32> {
        let mut code = 0;
        for _ in 0..4 {
            code = code * 16 + char::from(self.next()?).to_digit(16)?;
        }
        Some(code)
    }

    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Some(())
    }

    fn some_digits(&mut self) -> Option<()> {
        self.next()?.is_ascii_digit().then_some(())?;
        self.digits();
        Some(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn space(&mut self) {
        while self.bytes.get(self.at).copied().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::is_jsonb;

    #[test]
    fn what_postgresql_refuses_is_refused() {
        for refused in [
            "",
            " ",
            "{",
            "}",
            "[1,]",
            "{\"a\":}",
            "{\"a\" 1}",
            "{a:1}",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "tru",
            "nul",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u0000\"",
            "{\"\\u0000\":1}",
            "[[\"\\u0000\"]]",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"\\u12\"",
            "1 2",
            "\u{feff}{}",
            "NaN",
            "{\"a\":1,}",
            "[1 2]",
            "]",
            "\"",
            "[1}",
        ] {
            assert!(!is_jsonb(refused.as_bytes()), "{refused:?} must be refused");
        }
        for bytes in [&b"\xff\xfe"[..], b"\"\xc3\x28\"", b"\"\xed\xa0\x80\"", b"\"\xc0\x80\"", b"A\0B"] {
            assert!(!is_jsonb(bytes), "{bytes:?} must be refused");
        }
    }

    #[test]
    fn what_postgresql_takes_is_taken() {
        for taken in [
            "null",
            " true ",
            "-0",
            "1.0",
            "1e400",
            "9007199254740993",
            "\"\"",
            "{}",
            "[]",
            "[ ]",
            "{ }",
            "[{},[],\"a\"]",
            "{\"a\":1,\"a\":{\"b\":[1,2,{\"c\":null}]}}\n",
            "\"\\\\u0000\"",
            "\"\\ud83d\\ude00\"",
            "\"\u{fffe}\u{2028}\"",
            "-1.5E+10",
        ] {
            assert!(is_jsonb(taken.as_bytes()), "{taken:?} must be taken");
        }
        assert!(is_jsonb(
            "[".repeat(100_000)
                .as_bytes()
                .iter()
                .copied()
                .chain(*b"1")
                .chain("]".repeat(100_000).bytes())
                .collect::<Vec<_>>()
                .as_slice()
        ));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}:,"a\\u0-9eE+.\- tnr]{0,24}"#) {
            // serde_json as second opinion; it knows no lone surrogates in Value either, and takes \u0000.
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let ours = is_jsonb(text.as_bytes());
            prop_assert!(ours == theirs || (theirs && text.contains("\\u0000")) || (ours && text.contains(['e', 'E'])), "{text:?} ours {ours} theirs {theirs}");
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = is_jsonb(&bytes);
        }
    }
}
