use std::{fmt, path::PathBuf};

use super::{REDACTED, Scalar, scalar_text};

/// A certificate or key in PEM form: the path of a file, or the text itself (`${file:…}`, `${env:…}`).
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    Path(PathBuf),
    Text(String),
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
