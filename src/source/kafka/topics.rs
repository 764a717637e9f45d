//! Which topics a source reads: names, and patterns that are matched against what the cluster has.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

/// The topics of one source.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    pub names: BTreeSet<String>,
    pub patterns: Vec<Regex>,
}

impl Topics {
    /// What to subscribe to, in a cluster with these topics. A name is subscribed to before its topic is made.
    pub(super) fn subscribed<'t>(&self, all: impl IntoIterator<Item = &'t String>) -> BTreeSet<String> {
        let matches = |topic: &&String| self.patterns.iter().any(|pattern| pattern.is_match(topic));
        let matching = all.into_iter().filter(matches).cloned();
        self.names.iter().cloned().chain(matching).collect()
    }

    /// Partitions of these topics that there are.
    pub(super) fn partitions<'t>(
        &self,
        all: &'t BTreeMap<String, i32>,
    ) -> impl Iterator<Item = crate::source::Partition> + 't {
        let subscribed = self.subscribed(all.keys());
        all.iter().filter(move |(topic, _)| subscribed.contains(*topic)).flat_map(|(topic, count)| {
            let topic: std::sync::Arc<str> = topic.as_str().into();
            (0..*count).map(move |number| crate::source::Partition { topic: std::sync::Arc::clone(&topic), number })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_pick_from_what_there_is_and_names_stand_for_themselves() {
        let topics = Topics {
            names: ["orders-dlt".to_owned()].into(),
            patterns: vec![Regex::new(r"^retail\..*\.DLQ$").expect("a pattern")],
        };
        let all = BTreeMap::from([("retail.eu.DLQ".to_owned(), 2), ("retail.eu".to_owned(), 1)]);
        let subscribed = topics.subscribed(all.keys());
        assert_eq!(subscribed, BTreeSet::from(["orders-dlt".to_owned(), "retail.eu.DLQ".to_owned()]));
        assert_eq!(topics.partitions(&all).count(), 2);
    }
}
