//! How a command fails: one line for people, a code for scripts.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

/// Why a command did not do what it was asked. The text says what happened and the way out.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Asked work was done and failed.
    #[error("{0}")]
    Failed(String),
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// It is not there, or not up to date.
    #[error("{0}")]
    Missing(String),
    /// Database, broker or server do not answer.
    #[error("{0}")]
    Unreachable(String),
    #[error("interrupted")]
    Interrupted,
    /// Whoever read our output has enough. No failure.
    #[error("output closed")]
    Closed,
    /// Told already.
    #[error("exit code {0}")]
    Code(u8),
}

impl CliError {
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Missing(_) => 3,
            Self::Unreachable(_) => 4,
            Self::Interrupted => 130,
            Self::Code(code) => *code,
        }
    }

    /// Tells it on stderr, and gives the process's exit code.
    #[must_use]
    pub fn report(self) -> ExitCode {
        if !matches!(self, Self::Closed | Self::Code(_)) {
            tell(&self.to_string());
        }
        ExitCode::from(self.code())
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}

/// One line on stderr, `dlo: …`.
pub(super) fn tell(message: &str) {
    let stderr = io::stderr();
    let red = stderr.is_terminal() && super::out::colour_wanted();
    let line = super::out::printable(message).replace('\n', " ");
    let line = if red { format!("\x1b[1;31mdlo:\x1b[0m {line}\n") } else { format!("dlo: {line}\n") };
    let _ = stderr.lock().write_all(line.as_bytes());
}
