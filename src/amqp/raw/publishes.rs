//! Publishes under way on one channel: which verdict is whose.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::state::lossy;
use super::{PublishOutcome, RawError};
use crate::message::{Headers, Text, Value};

/// How a returned message is told from others under way: a returned message carries no number, and confirms of
/// several say nothing about who of them was returned. The header has to be in the message, like in no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub header: &'static str,
    pub value: Text,
}

#[derive(Debug, Default)]
pub(super) struct Publishes {
    /// From the oldest without a verdict on; a gap is one that has it.
    waiting: VecDeque<Option<Waiting>>,
    /// Publishes so far, by which the broker numbers them.
    published: u64,
}

#[derive(Debug)]
struct Waiting {
    mark: Option<Mark>,
    /// The broker returns a message before it confirms it.
    returned: Option<(u16, Text)>,
    done: oneshot::Sender<PublishOutcome>,
}

impl Publishes {
    /// The next publish. Without a mark it must be the only one of that kind.
    pub(super) fn begin(&mut self, mark: Option<Mark>) -> oneshot::Receiver<PublishOutcome> {
        let (done, verdict) = oneshot::channel();
        self.published += 1;
        self.waiting.push_back(Some(Waiting { mark, returned: None, done }));
        verdict
    }

    /// A message came back with `headers`.
    pub(super) fn returned(&mut self, code: u16, text: Text, headers: &Headers) -> Result<(), RawError> {
        let is_it = |waiting: &Waiting| {
            waiting.mark.as_ref().is_some_and(|mark| match headers.get_last(mark.header) {
                Some(Value::Str(value)) => *value == mark.value,
                _ => false,
            })
        };
        let waiting = || self.waiting.iter().flatten();
        let index = waiting().position(is_it).or_else(|| waiting().position(|waiting| waiting.mark.is_none()));
        let found = index.and_then(|index| self.waiting.iter_mut().flatten().nth(index));
        found.ok_or(RawError::Protocol("it returns a message that is not under way"))?.returned = Some((code, text));
        Ok(())
    }

    /// The verdict on number `tag`, or on all up to it. Zero is the last one there is.
    pub(super) fn confirmed(&mut self, tag: u64, multiple: bool, acked: bool) {
        let first = self.published + 1 - self.waiting.len() as u64;
        let tag = if tag == 0 { self.published } else { tag.min(self.published) };
        let Some(index) = tag.checked_sub(first).and_then(|index| usize::try_from(index).ok()) else { return };
        let from = if multiple { 0 } else { index };
        for waiting in self.waiting.range_mut(from..=index) {
            if let Some(waiting) = waiting.take() {
                waiting.decide(acked);
            }
        }
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
        }
    }

    /// Nobody will hear a verdict any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Waiting {
    fn decide(self, acked: bool) {
        let outcome = match self.returned {
            Some((code, text)) if acked => PublishOutcome::Returned { code, text: lossy(&text) },
            _ if acked => PublishOutcome::Routed,
            _ => PublishOutcome::Nacked,
        };
        // Who no longer waits has written it off.
        let _ = self.done.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(n: u32) -> Mark {
        Mark { header: "id", value: n.to_string().into() }
    }

    fn headers(n: u32) -> Headers {
        [(Text::from("id"), Value::Str(n.to_string().into()))].into_iter().collect()
    }

    fn returned() -> PublishOutcome {
        PublishOutcome::Returned { code: 312, text: "NO_ROUTE".to_owned() }
    }

    #[test]
    fn of_several_confirmed_at_once_the_returned_one_is_found_by_its_mark() {
        let mut publishes = Publishes::default();
        let mut verdicts: Vec<_> = (1..=6).map(|n| publishes.begin(Some(mark(n)))).collect();
        for n in [5, 2] {
            publishes.returned(312, "NO_ROUTE".into(), &headers(n)).expect("known");
        }
        publishes.confirmed(4, true, true);
        publishes.confirmed(6, false, false);
        let mut heard = || verdicts.iter_mut().map(|verdict| verdict.try_recv().ok()).collect::<Vec<_>>();
        let routed = Some(PublishOutcome::Routed);
        let nacked = Some(PublishOutcome::Nacked);
        let now = [routed.clone(), Some(returned()), routed.clone(), routed, None, nacked];
        assert_eq!(heard(), now);
        publishes.confirmed(5, false, true);
        assert_eq!(heard()[4], Some(returned()));
        assert!(publishes.waiting.is_empty());
    }

    #[test]
    fn a_confirm_of_one_says_nothing_about_those_before_it() {
        let mut publishes = Publishes::default();
        let mut first = publishes.begin(Some(mark(1)));
        let mut second = publishes.begin(Some(mark(2)));
        publishes.confirmed(2, false, true);
        assert!(first.try_recv().is_err());
        assert_eq!(second.try_recv(), Ok(PublishOutcome::Routed));
        publishes.confirmed(2, false, true);
        publishes.confirmed(1, false, true);
        assert_eq!(first.try_recv(), Ok(PublishOutcome::Routed));
        publishes.confirmed(1, true, true);
        let mut third = publishes.begin(None);
        publishes.confirmed(0, true, true);
        assert_eq!(third.try_recv(), Ok(PublishOutcome::Routed));
    }

    #[test]
    fn a_return_nobody_waits_for_is_not_given_to_somebody_else() {
        let mut publishes = Publishes::default();
        let _one = publishes.begin(Some(mark(1)));
        assert!(publishes.returned(312, "NO_ROUTE".into(), &headers(7)).is_err());
        let mut unmarked = publishes.begin(None);
        publishes.returned(312, "NO_ROUTE".into(), &Headers::new()).expect("the one without a mark");
        publishes.confirmed(2, false, true);
        assert_eq!(unmarked.try_recv(), Ok(returned()));
    }
}
