//! JSON as text: indented without being read into numbers, which would change large ones.

/// `text`, which is JSON, indented.
pub(super) fn pretty(text: &str) -> String {
    indented(text, 0)
}

/// The same for people: an object or list of up to `room` characters stays on its line.
pub(super) fn indented(text: &str, room: usize) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0usize;
    let mut rest = text.trim();
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let end = string_end(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '{' | '[' => {
                if let Some((inline, after)) = on_one_line(rest, c, room.saturating_sub(depth * 2)) {
                    out.push_str(&inline);
                    rest = after;
                    continue;
                }
                out.push(c);
                let close = if c == '{' { '}' } else { ']' };
                if let Some(after) = rest.trim_start().strip_prefix(close) {
                    out.push(close);
                    rest = after;
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// What was opened by `open`, before `rest`, up to where it is closed, if that fits into `room`.
fn on_one_line(rest: &str, open: char, room: usize) -> Option<(String, &str)> {
    let mut line = String::from(open);
    let (mut depth, mut at) = (1, 0);
    while depth > 0 {
        let c = rest[at..].chars().next()?;
        if c == '"' {
            let end = at + string_end(&rest[at..]);
            line.push_str(&rest[at..end]);
            at = end;
        } else {
            at += c.len_utf8();
            match c {
                '{' | '[' => depth += 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
            match c {
                ',' | ':' => line.extend([c, ' ']),
                c if c.is_ascii_whitespace() => {}
                c => line.push(c),
            }
        }
        if line.len() > room {
            return None;
        }
    }
    Some((line, &rest[at..]))
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Behind the closing quote of the string that `text` begins with.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_its_tokens_stay_as_they_are() {
        let text = r#"{"a":[1e400,{"b":"x,\"{"}],"c":{ },"d":[]}"#;
        assert_eq!(
            pretty(text),
            "{\n  \"a\": [\n    1e400,\n    {\n      \"b\": \"x,\\\"{\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}"
        );
    }

    #[test]
    fn for_people_what_fits_stays_on_its_line() {
        let text = r#"{"items":[{"sku":"A","qty":1},{"sku":"B","qty":2}],"n":1}"#;
        assert_eq!(
            indented(text, 30),
            "{\n  \"items\": [\n    {\"sku\": \"A\", \"qty\": 1},\n    {\"sku\": \"B\", \"qty\": 2}\n  ],\n  \"n\": 1\n}"
        );
    }

    #[test]
    fn what_serde_reads_is_the_same_before_and_after() {
        let text = r#"[null,true,"ä\\",-0.5,{"k":"v"}]"#;
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&pretty(text)), read(text));
        assert_eq!(read(&indented(text, 80)), read(text));
    }
}
