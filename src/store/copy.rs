//! Rows in PostgreSQL's binary COPY format, by hand: half the cost of text for bytes, and no second pass.
//!
//! Format: signature, then per row the number of fields and per field its length (−1 for NULL) and content in
//! the type's binary form, then −1. <https://www.postgresql.org/docs/current/sql-copy.html>

use chrono::{DateTime, Utc};

/// Signature, flags, and length of the header extension.
pub(crate) const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Ends the data.
pub(crate) const TRAILER: [u8; 2] = (-1i16).to_be_bytes();
/// Microseconds between 1970 and 2000, PostgreSQL's zero.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Writes the fields of rows, one after the other.
#[derive(Debug)]
pub(crate) struct RowWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> RowWriter<'a> {
    /// Starts a row of `fields` fields.
    pub(crate) fn new(out: &'a mut Vec<u8>, fields: i16) -> Self {
        out.extend_from_slice(&fields.to_be_bytes());
        Self { out }
    }

    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(&(-1i32).to_be_bytes());
    }

    /// `text` and `bytea` alike. The caller has made sure that text is UTF-8 without U+0000.
    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.field(|out| out.extend_from_slice(value));
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(crate) fn opt_text(&mut self, value: Option<&str>) {
        self.opt(value, Self::text);
    }

    pub(crate) fn opt_bytes(&mut self, value: Option<&[u8]>) {
        self.opt(value, Self::bytes);
    }

    pub(crate) fn opt_int(&mut self, value: Option<i32>) {
        self.opt(value, |row, v| row.bytes(&v.to_be_bytes()));
    }

    pub(crate) fn opt_bigint(&mut self, value: Option<i64>) {
        self.opt(value, |row, v| row.bytes(&v.to_be_bytes()));
    }

    pub(crate) fn opt_timestamp(&mut self, value: Option<DateTime<Utc>>) {
        self.opt(value, |row, v| row.bytes(&(v.timestamp_micros() - EPOCH_MICROS).to_be_bytes()));
    }

    /// `jsonb` from its text, which `write` appends.
    pub(crate) fn jsonb(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.field(|out| {
            out.push(1);
            write(out);
        });
    }

    /// A field of which only `write` knows the length.
    pub(crate) fn field(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        self.null();
        write(self.out);
        // A field is bounded by what a broker delivers, far below 2 GiB.
        let length = i32::try_from(self.out.len() - at - 4).unwrap_or(i32::MAX);
        self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn opt<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.null(),
        }
    }
}
