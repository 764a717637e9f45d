use std::fmt;

use super::{Scalar, scalar_text};

/// A number of bytes: `24MiB`, `24Mi`, `1.5 GB`, or a plain number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    #[must_use]
    pub const fn mib(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }

    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// For buffers; what does not fit the machine's address space is the largest that does.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Scalar for ByteSize {
    const ALLOWED: &'static str = "a size larger than zero, such as 24MiB, 24Mi, 512KiB or a number of bytes";

    fn parse(text: &str) -> Result<Self, String> {
        let size: bytesize::ByteSize = text.trim().parse().map_err(|_| String::new())?;
        if size.as_u64() == 0 { Err(String::new()) } else { Ok(Self(size.as_u64())) }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Debug for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

scalar_text!(ByteSize, "ByteSize", {
    "anyOf": [
        { "type": "string", "pattern": r"^\s*[0-9.]+\s*([kKmMgGtTpPeE][iI]?)?[bB]?\s*$" },
        { "type": "integer", "minimum": 1 }
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_units_with_and_without_b_are_the_same() {
        for text in ["24MiB", "24Mi", "24 MiB", "25165824", "24mib"] {
            assert_eq!(ByteSize::parse(text), Ok(ByteSize::mib(24)), "{text}");
        }
        assert_eq!(ByteSize::parse("1MB").map(ByteSize::bytes), Ok(1_000_000));
        for text in ["", "0", "MiB", "24 bananas", "-1", "1e9"] {
            assert!(ByteSize::parse(text).is_err(), "{text}");
        }
        assert_eq!(ByteSize::mib(24).to_string(), "24MiB");
    }
}
