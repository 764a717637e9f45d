//! Where a partition is read from. Pure.

use uuid::Uuid;

use crate::source::positions::{At, Known};

/// What the group's committed offset carries beside the number: who committed it, and from where the database knows
/// the partition. Offsets that people or tools set do not carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) installation: Uuid,
    pub(super) since: i64,
}

impl Mark {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix("dlo:")?.split(':');
        let (installation, since) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { installation, since })
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "dlo:{}:{}", self.installation, self.since)
    }
}

/// All that is known about a partition when it is about to be read.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// In the database.
    pub(super) known: Option<Known>,
    /// Nil where the broker does not tell.
    pub(super) topic_id: Uuid,
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) committed: Option<(i64, Option<Mark>)>,
    /// Where the configuration says that a group without a position begins.
    pub(super) start: i64,
    pub(super) installation: Uuid,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    At(At),
    /// The position has to be set first, if it is still as `expected`.
    Set {
        expected: Option<At>,
        new: Known,
        lost: i64,
        why: &'static str,
    },
    /// Somebody has to decide, and sets the position.
    Stop(At, String),
}

impl Facts {
    pub(super) fn begin(&self) -> Begin {
        match &self.known {
            None => self.first_time(),
            Some(known) => self.again(known),
        }
    }

    fn first_time(&self) -> Begin {
        let set = |offset: i64, since: i64, lost: i64, why| {
            let at = At { epoch: 0, offset };
            Begin::Set { expected: None, new: Known { at, topic_id: self.topic_id, since }, lost, why }
        };
        let within = |offset: i64| offset.clamp(self.low, self.high);
        match self.committed {
            Some((_, Some(mark))) if mark.installation == self.installation => set(
                within(mark.since),
                mark.since,
                0,
                "this database has forgotten the partition (restored from a backup?): it is read again from where it began",
            ),
            Some((offset, _)) if offset > self.high => {
                set(self.low, self.low, 0, "the group's offset is beyond the end: the topic was made anew")
            }
            Some((offset, _)) => {
                set(within(offset), within(offset), (self.low - offset).max(0), "begins at the group's offset")
            }
            None => set(within(self.start), within(self.start), 0, "begins where the configuration says"),
        }
    }

    fn again(&self, known: &Known) -> Begin {
        let set = |at, since, lost, why| {
            let topic_id = if self.topic_id.is_nil() { known.topic_id } else { self.topic_id };
            Begin::Set { expected: Some(known.at), new: Known { at, topic_id, since }, lost, why }
        };
        let is_another = !known.topic_id.is_nil() && !self.topic_id.is_nil() && known.topic_id != self.topic_id;
        if is_another {
            let at = At { epoch: known.at.epoch + 1, offset: self.low };
            return set(at, self.low, self.low, "the topic was made anew: it is read from its beginning");
        }
        let offset = known.at.offset;
        if offset > self.high {
            let why = format!(
                "its end is at {}, before our position {offset}, though the topic is the same: an unclean election, or another \
                 cluster under the same name. Nothing is read until the position is set by dlo sources seek",
                self.high
            );
            return Begin::Stop(known.at, why);
        }
        if offset < self.low {
            let at = At { offset: self.low, ..known.at };
            return set(at, known.since, self.low - offset, "retention removed messages that were not read yet");
        }
        if known.topic_id.is_nil() && !self.topic_id.is_nil() {
            return set(known.at, known.since, 0, "the broker now tells the topic's id");
        }
        Begin::At(known.at)
    }

    /// The group's offset, where somebody else set it elsewhere since we last committed.
    pub(super) fn reset_by_hand(&self) -> Option<i64> {
        let known = self.known.as_ref()?;
        match self.committed {
            Some((offset, None)) if offset != known.at.offset => Some(offset),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Uuid = Uuid::from_u128(1);
    const TOPIC: Uuid = Uuid::from_u128(2);

    fn facts() -> Facts {
        Facts { known: None, topic_id: TOPIC, low: 10, high: 100, committed: None, start: 10, installation: US }
    }

    fn known(offset: i64) -> Option<Known> {
        Some(Known { at: At { epoch: 3, offset }, topic_id: TOPIC, since: 10 })
    }

    fn set_to(begin: &Begin) -> (i32, i64, i64, i64) {
        let Begin::Set { new, lost, .. } = begin else { panic!("{begin:?}") };
        (new.at.epoch, new.at.offset, new.since, *lost)
    }

    #[test]
    fn a_known_position_wins_over_the_groups_offset() {
        let facts = Facts { known: known(50), committed: Some((70, None)), ..facts() };
        assert_eq!(facts.begin(), Begin::At(At { epoch: 3, offset: 50 }));
        assert_eq!(facts.reset_by_hand(), Some(70));
    }

    #[test]
    fn an_offset_that_lags_behind_because_we_crashed_was_not_set_by_hand() {
        let ours = Some(Mark { installation: US, since: 10 });
        assert_eq!(Facts { known: known(50), committed: Some((40, ours)), ..facts() }.reset_by_hand(), None);
    }

    #[test]
    fn without_a_position_the_groups_offset_counts_and_then_the_configuration() {
        let another = Some(Mark { installation: Uuid::from_u128(9), since: 0 });
        assert_eq!(set_to(&Facts { committed: Some((70, another)), ..facts() }.begin()), (0, 70, 70, 0));
        assert_eq!(set_to(&Facts { committed: Some((4, None)), ..facts() }.begin()), (0, 10, 10, 6));
        assert_eq!(set_to(&Facts { committed: Some((400, None)), ..facts() }.begin()), (0, 10, 10, 0));
        assert_eq!(set_to(&Facts { start: 100, ..facts() }.begin()), (0, 100, 100, 0));
    }

    #[test]
    fn a_database_that_forgot_a_partition_we_committed_reads_it_again_from_where_it_began() {
        let ours = Some(Mark { installation: US, since: 20 });
        assert_eq!(set_to(&Facts { committed: Some((70, ours)), ..facts() }.begin()), (0, 20, 20, 0));
    }

    #[test]
    fn a_topic_made_anew_begins_an_epoch() {
        let facts = Facts { known: known(50), topic_id: Uuid::from_u128(7), low: 0, ..facts() };
        assert_eq!(set_to(&facts.begin()), (4, 0, 0, 0));
    }

    #[test]
    fn an_end_before_our_position_stops() {
        assert!(matches!(Facts { known: known(101), ..facts() }.begin(), Begin::Stop(..)));
        assert_eq!(Facts { known: known(100), ..facts() }.begin(), Begin::At(At { epoch: 3, offset: 100 }));
    }

    #[test]
    fn what_retention_removed_is_counted() {
        assert_eq!(set_to(&Facts { known: known(4), ..facts() }.begin()), (3, 10, 10, 6));
    }

    #[test]
    fn marks_come_back_as_written() {
        let mark = Mark { installation: Uuid::from_u128(77), since: 12 };
        assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        for other in ["", "dlo", "dlo:x:1", "dlo:00000000-0000-0000-0000-000000000001:", "consumer said hi"] {
            assert_eq!(Mark::parse(other), None, "{other}");
        }
    }
}
