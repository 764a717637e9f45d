//! How many messages the broker may send ahead, from the sizes seen: what has come is in memory, so this is the
//! only bound on memory. Pure.

/// Above this a longer window gains nothing: batches are a fifth of it.
const PREFETCH_MAX: usize = 5000;
/// Assumed before anything was seen: the first window of 1 MiB messages still fits an ordinary budget.
const UNSEEN_BYTES: usize = 1024 * 1024;

/// Follows message sizes and says when another prefetch would be right.
#[derive(Debug)]
pub struct Prefetch {
    /// Bytes that may be in flight.
    share: usize,
    current: usize,
    seen: usize,
    /// Bytes a message, a moving average over about a window.
    mean: f64,
}

impl Prefetch {
    #[must_use]
    pub fn new(share: usize) -> Self {
        let current = (share / UNSEEN_BYTES).clamp(2, PREFETCH_MAX);
        Self { share, current, seen: 0, mean: 0.0 }
    }

    /// Always the same.
    #[must_use]
    pub fn fixed(prefetch: u16) -> Self {
        Self { share: 0, current: usize::from(prefetch), seen: 0, mean: 0.0 }
    }

    #[must_use]
    pub fn current(&self) -> u16 {
        u16::try_from(self.current).unwrap_or(u16::MAX)
    }

    pub fn saw(&mut self, bytes: usize) {
        self.seen += 1;
        let weight = (1.0 / self.seen as f64).max(1.0 / self.current as f64);
        self.mean += (bytes as f64 - self.mean) * weight;
    }

    /// A better window, once a whole one has been seen: at most eight times the last, so that every step rests on what
    /// was seen; smaller at once when the messages have grown.
    #[must_use]
    pub fn better(&self) -> Option<u16> {
        if self.share == 0 || self.seen < self.current.min(500) {
            return None;
        }
        let fits = (self.share as f64 / self.mean.max(1.0)) as usize;
        let wanted = fits.clamp(2, PREFETCH_MAX).min(self.current * 8);
        let changed = wanted >= self.current * 2 || wanted * 3 <= self.current * 2;
        changed.then(|| u16::try_from(wanted).unwrap_or(u16::MAX))
    }

    pub fn set(&mut self, prefetch: u16) {
        self.current = usize::from(prefetch);
        self.seen = 0;
    }

    /// For a new consumer of the same queue: the sizes seen are still the best guess.
    pub fn restart(&mut self) {
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn see(prefetch: &mut Prefetch, bytes: usize, messages: usize) {
        for _ in 0..messages {
            prefetch.saw(bytes);
            if let Some(better) = prefetch.better() {
                prefetch.set(better);
            }
        }
    }

    #[test]
    fn small_messages_grow_the_window_to_its_maximum() {
        let mut prefetch = Prefetch::new(24 * MIB);
        assert_eq!(prefetch.current(), 24);
        see(&mut prefetch, 2_000, 5_000);
        assert_eq!(prefetch.current(), 5_000);
    }

    #[test]
    fn large_messages_keep_it_within_the_budget() {
        let mut prefetch = Prefetch::new(24 * MIB);
        see(&mut prefetch, 8 * MIB, 100);
        assert!((2..=3).contains(&prefetch.current()), "{}", prefetch.current());
    }

    #[test]
    fn a_jump_in_size_is_learned_within_a_window() {
        let mut prefetch = Prefetch::new(24 * MIB);
        see(&mut prefetch, 2_000, 10_000);
        see(&mut prefetch, MIB, 5_000);
        assert!(usize::from(prefetch.current()) * MIB <= 32 * MIB, "{}", prefetch.current());
    }
}
