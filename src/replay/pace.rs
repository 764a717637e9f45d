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

    /// Takes up to `most` publishes out of what is allowed by now, or tells when there will be one.
    pub fn take(&mut self, most: usize, now: Instant) -> Result<usize, Instant> {
        let Some(rate) = self.per_second else { return Ok(most) };
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        self.budget = (self.budget + earned).min((rate / 4.0).max(1.0));
        self.at = now;
        if self.budget < 1.0 {
            // A little late rather than early: an instant is whole nanoseconds.
            return Err(now + Duration::from_secs_f64((1.0 - self.budget) / rate) + Duration::from_micros(1));
        }
        let taken = most.min(self.budget as usize);
        self.budget -= taken as f64;
        Ok(taken)
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&mut self, publishes: usize) {
        self.budget += publishes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_no_more_than_the_rate() {
        let start = Instant::now();
        for (rate, expected) in [(100.0, 990..=1026), (0.5, 5..=6), (7.0, 69..=72)] {
            let (mut now, mut sent) = (start, 0);
            let mut pace = Pace::new(Some(rate), now);
            while now - start < Duration::from_secs(10) {
                match pace.take(250, now) {
                    Ok(n) => sent += n,
                    Err(at) => now = at,
                }
            }
            assert!(expected.contains(&sent), "{sent} in ten seconds at {rate}/s");
        }
    }

    #[test]
    fn idle_time_earns_a_short_burst_and_what_is_not_used_is_kept() {
        let mut now = Instant::now();
        let mut pace = Pace::new(Some(100.0), now);
        now += Duration::from_secs(60);
        assert_eq!(pace.take(250, now), Ok(25));
        pace.give_back(10);
        assert_eq!(pace.take(250, now), Ok(10));
        assert!(pace.take(250, now).is_err());
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        let now = Instant::now();
        let mut pace = Pace::new(None, now);
        assert_eq!(pace.take(1_000_000, now), Ok(1_000_000));
    }
}
