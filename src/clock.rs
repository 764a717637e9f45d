//! Time as an argument: the only place that asks the machine.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

/// Tells the time of day: the system's, or one that a test turns.
#[derive(Clone, Debug)]
pub struct Clock(Option<Arc<Mutex<DateTime<Utc>>>>);

impl Clock {
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// Stands still until [`Clock::set`].
    #[must_use]
    pub fn manual(now: DateTime<Utc>) -> Self {
        Self(Some(Arc::new(Mutex::new(now))))
    }

    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        match &self.0 {
            Some(now) => *now.lock().unwrap_or_else(PoisonError::into_inner),
            #[expect(clippy::disallowed_methods, reason = "the one place")]
            None => Utc::now(),
        }
    }

    /// Turns a manual clock; the system's goes its own way.
    pub fn set(&self, to: DateTime<Utc>) {
        if let Some(now) = &self.0 {
            *now.lock().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }
}
