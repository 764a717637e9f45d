//! The system's name for whoever runs us, for the audit trail.

use std::{fs, os::unix::fs::MetadataExt};

/// By the process's user id, not by what the environment says.
pub(super) fn name() -> String {
    let Ok(uid) = fs::metadata("/proc/self").map(|own| own.uid()) else {
        return std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned());
    };
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid-{uid}"))
}
