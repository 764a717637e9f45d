use std::{fmt, path::PathBuf};

use super::{REDACTED, Scalar, scalar_text};

/// A certificate or key in PEM form: the path of a file, or the text itself (`${file:…}`, `${env:…}`).
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    Path(PathBuf),
    Text(String),
}

impl Pem {
    /// The PEM text, from its file where it is one. The error names the file.
    pub fn read(&self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Path(path) => std::fs::read(path)
                .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }
}

impl Scalar for Pem {
    const ALLOWED: &'static str = "the path of a PEM file, or PEM text";
    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        match text.trim_start() {
            "" => Err(String::new()),
            pem if pem.starts_with("-----BEGIN ") => Ok(Self::Text(text.to_owned())),
            path if path.contains('\n') => Err("several lines, and the first is not -----BEGIN …-----".to_owned()),
            path => Ok(Self::Path(path.into())),
        }
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Text(_) => f.write_str(REDACTED),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

scalar_text!(Pem, "Pem", { "type": "string", "minLength": 1 });
