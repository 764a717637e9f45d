//! How many publishes are allowed by now. Pure: the time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// A rate with a burst of a quarter second.
#[derive(Debug)]
pub struct Pace {
    per_second: Option<f64>,
    budget: f64,
    at: Instant,
}

impl Pace {
    /// `None` is as fast as it goes.
    #[must_use]
    pub fn new(per_second: Option<f64>, now: Instant) -> Self {
        Self { per_second, budget: 1.0, at: now }
    }

    /// Publishes allowed now; at least one may always be asked for, it is waited for in [`Pace::next`].
    pub fn allowed(&mut self, now: Instant) -> i64 {
        let Some(rate) = self.per_second else { return i64::MAX };
        self.budget = (self.budget + now.duration_since(self.at).as_secs_f64() * rate).min((rate / 4.0).max(1.0));
        self.at = now;
        (self.budget as i64).max(1)
    }

    pub fn spent(&mut self, publishes: usize) {
        self.budget -= publishes as f64;
    }

    /// When the next publish is allowed.
    #[must_use]
    pub fn next(&self, now: Instant) -> Instant {
        match self.per_second {
            Some(rate) if self.budget < 1.0 => self.at.max(now) + Duration::from_secs_f64((1.0 - self.budget) / rate),
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_no_more_than_the_rate() {
        let start = Instant::now();
        let mut now = start;
        let mut pace = Pace::new(Some(100.0), now);
        let mut sent = 0;
        while now - start < Duration::from_secs(10) {
            let n = pace.allowed(now);
            pace.spent(usize::try_from(n).expect("small"));
            sent += n;
            now = pace.next(now) + Duration::from_millis(1);
        }
        assert!((900..=1030).contains(&sent), "{sent} in ten seconds");
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        let now = Instant::now();
        let mut pace = Pace::new(None, now);
        pace.spent(1_000_000);
        assert_eq!(pace.next(now), now);
        assert_eq!(pace.allowed(now), i64::MAX);
    }
}
