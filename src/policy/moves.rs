//! Which status may follow which: the one table. The database's trigger holds the same (migration 0002).

use crate::dead_letter::Status;

/// What `from` may become.
#[must_use]
pub fn allowed(from: Status) -> &'static [Status] {
    use Status::{Dead, Discarded, Duplicate, Failed, PendingRetry, Repeated, Replayed, Replaying, Resolved};
    match from {
        Failed => &[PendingRetry, Replaying, Resolved, Dead, Discarded],
        PendingRetry => &[Failed, Replaying, Resolved, Dead, Discarded],
        Replaying => &[Failed, PendingRetry, Replayed, Resolved, Dead],
        Replayed => &[Failed, PendingRetry, Replaying, Resolved, Dead, Discarded],
        Resolved => &[Failed, PendingRetry, Replaying, Dead],
        Dead => &[Failed, PendingRetry, Replaying, Resolved, Discarded],
        Discarded => &[Failed],
        Duplicate => &[Failed, Discarded],
        // Evidence of another life, never acted upon.
        Repeated => &[],
    }
}

/// Whether a letter in `from` may be sent home.
#[must_use]
pub fn may_replay(from: Status) -> bool {
    allowed(from).contains(&Status::Replaying)
}
