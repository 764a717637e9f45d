//! Headers as JSON for people and SQL: numbers as numbers, text as text.
//!
//! The reading form, not the exact one (that is [`super::wire`]): `T` becomes its number of seconds, bytes
//! that are no UTF-8 or hold U+0000 become `{"$b64": "…"}`, a name that PostgreSQL cannot hold becomes
//! `$b64:…`, NaN and infinities become strings, a repeated name an array of its values in order, and a
//! value that is not taken apart `{"$amqp": "…"}`, and a value that the `traceback` column holds already becomes `{"$column": "traceback"}`.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Headers, Text, Value};

/// Writes `headers` as a JSON object. `traceback` is the text column that values are referred to.
pub fn write(out: &mut Vec<u8>, headers: &Headers, traceback: Option<&str>) {
    table(out, headers, traceback);
}

/// A text in the form that it has as a header.
#[must_use]
pub fn text(text: &Text) -> serde_json::Value {
    match text.as_sql() {
        Some(text) => text.into(),
        None => serde_json::json!({"$b64": STANDARD.encode(text.as_bytes())}),
    }
}

/// Up to this many names are compared with each other; a record may carry tens of thousands.
const GLANCE: usize = 24;

/// Names in the order in which they first appear.
fn table(out: &mut Vec<u8>, headers: &Headers, traceback: Option<&str>) {
    out.push(b'{');
    if headers.len() <= GLANCE {
        few(out, headers, traceback);
    } else {
        many(out, headers, traceback);
    }
    // Behind each member stands a comma.
    match out.last_mut() {
        Some(comma @ b',') => *comma = b'}',
        _ => out.push(b'}'),
    }
}

fn few(out: &mut Vec<u8>, headers: &Headers, traceback: Option<&str>) {
    let mut written = [false; GLANCE];
    for (index, (name, first)) in headers.iter().enumerate() {
        if written[index] {
            continue;
        }
        // Takes memory for repeated names only.
        let mut others = Vec::new();
        for (later, (other, value)) in headers.iter().enumerate().skip(index + 1) {
            if other == name {
                written[later] = true;
                others.push(value);
            }
        }
        member(out, name, first, &others, traceback);
    }
}

fn many(out: &mut Vec<u8>, headers: &Headers, traceback: Option<&str>) {
    let mut grouped: Vec<(&Text, &Value, Vec<&Value>)> = Vec::with_capacity(headers.len());
    let mut seen: HashMap<&Text, usize> = HashMap::with_capacity(headers.len());
    for (name, value) in headers.iter() {
        match seen.get(name) {
            Some(index) => grouped[*index].2.push(value),
            None => {
                seen.insert(name, grouped.len());
                grouped.push((name, value, Vec::new()));
            }
        }
    }
    for (name, first, others) in grouped {
        member(out, name, first, &others, traceback);
    }
}

fn member(out: &mut Vec<u8>, name: &Text, first: &Value, others: &[&Value], traceback: Option<&str>) {
    key(out, name);
    out.push(b':');
    if others.is_empty() {
        value(out, first, traceback);
    } else {
        array(out, std::iter::once(first).chain(others.iter().copied()), traceback);
    }
    out.push(b',');
}

fn array<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = &'a Value>, traceback: Option<&str>) {
    out.push(b'[');
    for (index, item) in values.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        value(out, item, traceback);
    }
    out.push(b']');
}

fn key(out: &mut Vec<u8>, name: &Text) {
    match name.as_sql() {
        Some(name) => string(out, name),
        None => string(out, &format!("$b64:{}", STANDARD.encode(name.as_bytes()))),
    }
}

fn value(out: &mut Vec<u8>, value: &Value, traceback: Option<&str>) {
    match value {
        Value::Void => out.extend_from_slice(b"null"),
        Value::Bool(v) => out.extend_from_slice(if *v { b"true" } else { b"false" }),
        Value::I8(v) => int(out, *v),
        Value::U8(v) => int(out, *v),
        Value::I16(v) => int(out, *v),
        Value::U16(v) => int(out, *v),
        Value::I32(v) => int(out, *v),
        Value::U32(v) => int(out, *v),
        Value::I64(v) => int(out, *v),
        Value::Timestamp(v) => int(out, *v),
        Value::F32(v) => {
            float(out, f64::from(*v), v.is_finite().then(|| zmij::Buffer::new().format_finite(*v).to_owned()))
        }
        Value::F64(v) => float(out, *v, v.is_finite().then(|| zmij::Buffer::new().format_finite(*v).to_owned())),
        Value::Decimal { scale, value } => decimal(out, *scale, *value),
        Value::Str(text) => bytes(out, text.as_bytes(), traceback),
        Value::Bytes(raw) => bytes(out, raw, traceback),
        Value::Array(values) => array(out, values.iter(), traceback),
        Value::Opaque(raw) => {
            out.extend_from_slice(b"{\"$amqp\":");
            string(out, &STANDARD.encode(raw));
            out.push(b'}');
        }
        Value::Table(headers) => table(out, headers, traceback),
    }
}

fn int(out: &mut Vec<u8>, v: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
}

fn float(out: &mut Vec<u8>, v: f64, finite: Option<String>) {
    match finite {
        Some(text) => out.extend_from_slice(text.as_bytes()),
        None if v.is_nan() => out.extend_from_slice(b"\"NaN\""),
        None if v > 0.0 => out.extend_from_slice(b"\"Infinity\""),
        None => out.extend_from_slice(b"\"-Infinity\""),
    }
}

fn decimal(out: &mut Vec<u8>, scale: u8, value: u32) {
    let digits = format!("{value:0width$}", width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    out.extend_from_slice(whole.as_bytes());
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

fn bytes(out: &mut Vec<u8>, raw: &[u8], traceback: Option<&str>) {
    if traceback.is_some_and(|t| super::wire::refers(raw, t)) {
        out.extend_from_slice(b"{\"$column\":\"traceback\"}");
        return;
    }
    match std::str::from_utf8(raw).ok().filter(|text| !text.contains('\0')) {
        Some(text) => string(out, text),
        None => {
            out.extend_from_slice(b"{\"$b64\":");
            string(out, &STANDARD.encode(raw));
            out.push(b'}');
        }
    }
}

/// A JSON string. Control characters are the only ones JSON needs escaped beside quote and backslash.
fn string(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    let bytes = text.as_bytes();
    out.push(b'"');
    // Most texts are plain, and without a way out of its loop this looks at many bytes at once.
    if bytes.iter().fold(true, |all, byte| all & is_plain(byte)) {
        out.extend_from_slice(bytes);
        out.push(b'"');
        return;
    }
    let mut from = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if is_plain(byte) {
            continue;
        }
        out.extend_from_slice(&bytes[from..index]);
        from = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(headers: &Headers) -> serde_json::Value {
        let mut out = Vec::new();
        write(&mut out, headers, None);
        serde_json::from_slice(&out).expect("the natural form is JSON")
    }

    #[test]
    fn values_read_as_a_person_expects() {
        let headers: Headers = [
            ("n".into(), Value::I64(-5)),
            ("f".into(), Value::F32(1.5)),
            ("nan".into(), Value::F64(f64::NAN)),
            ("dec".into(), Value::Decimal { scale: 2, value: 5 }),
            ("raw".into(), Value::Str(Text::from(vec![0xff, 0x00]))),
            ("nul".into(), Value::Bytes(vec![0, 0, 0, 3])),
            ("q".into(), Value::Str("a\"\\\u{1}\n".into())),
            (Text::from(vec![0xff]), Value::Void),
            ("r".into(), Value::Bool(true)),
            ("r".into(), Value::Void),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            json(&headers),
            serde_json::json!({
                "n": -5, "f": 1.5, "nan": "NaN", "dec": 0.05, "raw": {"$b64": "/wA="}, "nul": {"$b64": "AAAAAw=="},
                "q": "a\"\\\u{1}\n", "$b64:/w==": null, "r": [true, null]
            })
        );
    }

    #[test]
    fn few_headers_and_many_read_alike() {
        let few: Headers = (0..12).map(|n| (Text::from(format!("h{}", n % 5)), Value::I32(n))).collect();
        let expected = serde_json::json!({
            "h0": [0, 5, 10], "h1": [1, 6, 11], "h2": [2, 7], "h3": [3, 8], "h4": [4, 9]
        });
        assert_eq!(json(&few).to_string(), expected.to_string());

        let others = (0..40).map(|n| (Text::from(format!("other{n}")), Value::Void));
        let many: Headers = few.into_iter().chain(others).collect();
        let read = json(&many);
        let first: Vec<_> = read.as_object().expect("an object").iter().take(5).collect();
        assert_eq!(first, expected.as_object().expect("an object").iter().collect::<Vec<_>>());
        assert_eq!(read["other39"], serde_json::Value::Null);
    }

    #[test]
    fn headers_of_a_record_read_as_text_where_they_are_text() {
        let headers: Headers = [
            ("tenant".into(), Value::Bytes(b"eu-1".to_vec())),
            ("partition".into(), Value::Bytes(vec![0, 0, 0, 3])),
            ("tenant".into(), Value::Void),
            ("tenant".into(), Value::Bytes(Vec::new())),
            ("bin".into(), Value::Bytes(vec![0xff])),
            ("".into(), Value::Void),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            json(&headers),
            serde_json::json!({
                "tenant": ["eu-1", null, ""], "partition": {"$b64": "AAAAAw=="}, "bin": {"$b64": "/w=="}, "": null
            })
        );
    }

    #[test]
    fn a_value_the_traceback_column_holds_is_referred_to() {
        let trace = "x".repeat(200);
        let headers: Headers = [("t".into(), Value::Str(trace.as_str().into()))].into_iter().collect();
        let mut out = Vec::new();
        write(&mut out, &headers, Some(&trace));
        assert_eq!(out, br#"{"t":{"$column":"traceback"}}"#);
    }
}
