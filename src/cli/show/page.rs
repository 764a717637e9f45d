//! A page of titled sections with labelled lines.

use chrono::{DateTime, Utc};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{
    cli::{
        out::{Paint, Style, printable},
        table::{cut, one_line},
    },
    clock,
};

const LABEL_WIDTH: usize = 14;
const LABEL_WIDTH_MAX: usize = 32;

/// Builds the text of `dlo show`.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    style: Style,
    full: bool,
    now: DateTime<Utc>,
    /// A title that waits for its first line: empty sections are not shown.
    title: Option<String>,
    label_width: usize,
}

impl Page {
    pub(super) fn new(style: Style, full: bool, now: DateTime<Utc>) -> Self {
        Self { text: String::new(), style, full, now, title: None, label_width: LABEL_WIDTH }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn paint(&self, paint: Paint, text: &str) -> String {
        paint.on(text, self.style.colour)
    }

    /// A line that is painted and cut already.
    pub(super) fn raw(&mut self, line: &str) {
        if let Some(title) = self.title.take() {
            self.text.push('\n');
            self.text.push_str(&self.paint(Paint::Bold, &title));
            self.text.push('\n');
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(super) fn section(&mut self, title: &str) {
        self.title = Some(title.to_owned());
        self.label_width = LABEL_WIDTH;
    }

    /// Widens the labels of this section to the longest of `labels`, within reason.
    pub(super) fn labels<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        let longest = labels.map(|label| label.width() + 2).max().unwrap_or(0);
        self.label_width = longest.clamp(LABEL_WIDTH, LABEL_WIDTH_MAX);
    }

    /// `label  value`, on one line; nothing when there is no value.
    pub(super) fn field(&mut self, label: &str, value: Option<&str>) {
        self.painted(label, value, Paint::Plain);
    }

    pub(super) fn painted(&mut self, label: &str, value: Option<&str>, paint: Paint) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        let label = one_line(label);
        let padding = " ".repeat(self.label_width.saturating_sub(label.as_str().width()).max(1));
        let room = self.room(2 + self.label_width.max(label.as_str().width() + 1));
        let value = self.paint(paint, &cut(&one_line(value), room));
        let label = self.paint(Paint::Dim, &label);
        self.raw(&format!("  {label}{padding}{value}"));
    }

    /// `label  value` over as many lines as it takes: what people came for is not cut.
    pub(super) fn wrapped(&mut self, label: &str, value: &str) {
        let value = printable(value);
        let indent = " ".repeat(2 + LABEL_WIDTH);
        let lines = wrap(value.trim(), self.room(2 + LABEL_WIDTH));
        let label =
            format!("  {}{}", self.paint(Paint::Dim, label), " ".repeat(LABEL_WIDTH.saturating_sub(label.len())));
        for (number, line) in lines.iter().enumerate() {
            let lead = if number == 0 { &label } else { &indent };
            self.raw(&format!("{lead}{line}"));
        }
    }

    /// How wide a line of a block may be.
    pub(super) fn block_width(&self) -> usize {
        self.style.width.map_or(96, |width| width.saturating_sub(2))
    }

    pub(super) fn time(&mut self, label: &str, at: Option<&str>) {
        let Some(at) = at.and_then(|at| at.parse::<DateTime<Utc>>().ok()) else { return };
        let ago = match clock::age(at, self.now).as_str() {
            "now" => "now".to_owned(),
            age => format!("{age} ago"),
        };
        self.field(label, Some(&format!("{}  ({ago})", at.format("%Y-%m-%d %H:%M:%S UTC"))));
    }

    /// A text of several lines, the first `most` of them; `more` says where the rest is.
    pub(super) fn block(&mut self, text: &str, most: usize, paint: Paint, more: &str) {
        let text = printable(text);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let shown = if self.full || lines.len() <= most + 2 { lines.len() } else { most };
        for line in &lines[..shown] {
            let line = if self.full { (*line).to_owned() } else { cut(&line.replace('\t', "    "), self.room(2)) };
            self.raw(&format!("  {}", self.paint(paint, &line)));
        }
        if shown < lines.len() {
            let rest = format!("  … {} more lines: {more}", lines.len() - shown);
            self.raw(&self.paint(Paint::Dim, &rest));
        }
    }

    fn room(&self, used: usize) -> usize {
        match self.style.width {
            Some(width) if !self.full => width.saturating_sub(used).max(20),
            _ => usize::MAX,
        }
    }
}

/// Lines of at most `width`, broken between words where there are any.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        for word in line.split_inclusive(' ') {
            if !current.is_empty() && (current.as_str().width() + word.trim_end().width()) > width {
                lines.push(std::mem::take(&mut current));
            }
            current.push_str(word);
            while current.as_str().width() > width && current.trim_end().width() > width {
                let (head, tail) = split_at_width(&current, width);
                lines.push(head);
                current = tail;
            }
        }
        if !current.is_empty() || line.is_empty() {
            lines.push(current);
        }
    }
    lines
}

fn split_at_width(text: &str, width: usize) -> (String, String) {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    // At least one character goes, or there is no end to it.
    let end = end.map_or(text.len(), |(index, _)| index).max(text.chars().next().map_or(0, char::len_utf8));
    (text[..end].to_owned(), text[end..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_inside_what_is_too_long() {
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("在庫が", 1), ["在", "庫", "が"]);
        assert_eq!(wrap("a\nb", usize::MAX), ["a", "b"]);
    }
}
