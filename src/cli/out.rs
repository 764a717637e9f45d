//! Standard output: buffered, never panicking on a closed pipe, and safe for a terminal.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use super::{CliError, Format};

/// Where a command prints, and how.
#[derive(Debug)]
pub(super) struct Out {
    to: BufWriter<Stdout>,
    pub(super) format: Format,
    pub(super) style: Style,
}

/// What the reader can take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colour: bool,
    /// Lines are cut to this; `None`: never.
    pub(super) width: Option<usize>,
    pub(super) terminal: bool,
}

/// `NO_COLOR` and dumb terminals are honoured.
pub(super) fn colour_wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `COLUMNS`, else what the terminal says.
fn terminal_width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns >= 20);
    let asked = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).filter(|width| *width >= 20);
    told.or_else(asked).unwrap_or(100)
}

impl Out {
    pub(super) fn stdout(format: Format) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = terminal.then(terminal_width);
        let style = Style { colour: terminal && colour_wanted(), width, terminal };
        Self { to: BufWriter::new(io::stdout()), format, style }
    }

    pub(super) fn line(&mut self, text: &str) -> Result<(), CliError> {
        self.to.write_all(text.as_bytes())?;
        Ok(self.to.write_all(b"\n")?)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        Ok(self.to.write_all(bytes)?)
    }

    /// Indented, or on one line for `-o jsonl`.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(value).map_err(|error| CliError::Failed(error.to_string()))?;
        self.raw_json(&text)
    }

    /// [`Out::json`] of text that is JSON: numbers stay as they are written.
    pub(super) fn raw_json(&mut self, text: &str) -> Result<(), CliError> {
        match self.format {
            Format::Jsonl => self.line(text),
            _ => self.line(&super::json::pretty(text)),
        }
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        Ok(self.to.flush()?)
    }

    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.to.flush()?)
    }

    /// A remark for whoever sits there; never in the way of a program.
    pub(super) fn remark(&mut self, text: &str) {
        let _ = self.to.flush();
        let stderr = io::stderr();
        if self.style.terminal && stderr.is_terminal() {
            let text = Paint::Dim.on(text, self.style.colour);
            let _ = writeln!(stderr.lock(), "{text}");
        }
    }
}

/// Text that cannot steer a terminal: messages come from anywhere, and escape sequences in them are not ours.
/// Line breaks and tabs stay.
pub(super) fn printable(text: &str) -> String {
    let steers = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(steers) {
        return text.to_owned();
    }
    let show = |c: char| match c {
        c if !steers(c) => c,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ => '\u{fffd}',
    };
    // A carriage return before a line feed is only another way to end a line.
    text.replace("\r\n", "\n").chars().map(show).collect()
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    #[default]
    Plain,
    Bold,
    Dim,
    Red,
    BoldRed,
    Yellow,
    Green,
    Cyan,
}

impl Paint {
    /// The colour that goes with a status.
    pub(super) fn of_status(status: &str) -> Self {
        match status {
            "FAILED" => Self::Red,
            "DEAD" => Self::BoldRed,
            "PENDING_RETRY" => Self::Yellow,
            "REPLAYING" | "REPLAYED" => Self::Cyan,
            "RESOLVED" => Self::Green,
            "DISCARDED" | "DUPLICATE" | "REPEATED" => Self::Dim,
            _ => Self::Plain,
        }
    }

    pub(super) fn on(self, text: &str, colour: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::BoldRed => "1;31",
            Self::Yellow => "33",
            Self::Green => "32",
            Self::Cyan => "36",
        };
        if colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_messages_cannot_steer_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\nc\u{202e}d\te\u{9b}"), "a␛[2Jb\nc\u{fffd}d\te\u{fffd}");
        assert_eq!(printable("grüß 日本"), "grüß 日本");
    }
}
