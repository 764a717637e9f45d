//! Texts of a message as the database can hold them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use memchr::memchr;
use serde_json::{Value as Json, json};

use crate::dead_letter::Notes;

/// The text for a text column: the same bytes wherever PostgreSQL's `text` takes them.
///
/// Bytes that are no UTF-8, and U+0000, become U+FFFD, and `notes.altered` names the column. Nothing is lost:
/// the header itself is stored exactly.
pub(super) fn storable(bytes: &[u8], column: &str, notes: &mut Notes) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if memchr(0, bytes).is_none() => text.to_owned(),
        _ => {
            notes.add("altered", column);
            String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
        }
    }
}

/// The text as JSON that PostgreSQL takes as jsonb, in the form that headers use.
pub(super) fn json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if memchr(0, bytes).is_none() => text.into(),
        _ => json!({ "$b64": STANDARD.encode(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_as_it_is_and_leaves_no_note() {
        let mut notes = Notes::default();
        assert_eq!(storable("nö stock\n".as_bytes(), "error_message", &mut notes), "nö stock\n");
        assert!(notes.is_empty());
    }

    #[test]
    fn what_a_text_column_cannot_hold_is_replaced_and_noted() {
        let mut notes = Notes::default();
        assert_eq!(storable(b"a\0b\xff", "error_message", &mut notes), "a\u{fffd}b\u{fffd}");
        assert_eq!(notes.to_json(), r#"{"altered":["error_message"]}"#);
        assert_eq!(json(b"a\0").to_string(), r#"{"$b64":"YQA="}"#);
    }
}
