//! Questions to the brokers of a cluster, over the client of a consumer. They block.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaResult,
};
use uuid::Uuid;

use super::begin::Mark;
use crate::{
    kafka::{client::Logged, native},
    source::Partition,
};

pub(super) type Client = BaseConsumer<Logged>;

pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// First and next offset of partitions.
pub(super) type Bounds = BTreeMap<Partition, (i64, i64)>;

pub(super) fn list<'p>(partitions: impl IntoIterator<Item = &'p Partition>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(&partition.topic, partition.number);
    }
    list
}

pub(super) fn list_at<'p>(
    partitions: impl IntoIterator<Item = (&'p Partition, Offset)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in partitions {
        list.add_partition_offset(&partition.topic, partition.number, offset)?;
    }
    Ok(list)
}

/// Where partitions begin and end. The end is what a consumer may read: before open transactions. Partitions that the
/// broker does not answer for are left out.
pub(super) fn bounds(client: &Client, partitions: &[Partition]) -> Result<Bounds, String> {
    let at = |when: Offset| -> Result<HashMap<Partition, i64>, String> {
        Ok(offsets_at(client, partitions, when)?.into_iter().filter(|(_, offset)| *offset >= 0).collect())
    };
    let (low, high) = (at(Offset::Beginning)?, at(Offset::End)?);
    Ok((partitions.iter())
        .filter_map(|partition| Some((partition.clone(), (*low.get(partition)?, *high.get(partition)?))))
        .collect())
}

/// The first offset at or after a time in milliseconds, or at the beginning or the end, for those that have one.
pub(super) fn offsets_at(
    client: &Client,
    partitions: &[Partition],
    when: Offset,
) -> Result<Vec<(Partition, i64)>, String> {
    let asked = list_at(partitions.iter().map(|partition| (partition, when))).map_err(|error| error.to_string())?;
    let answer = client.offsets_for_times(asked, PATIENCE).map_err(|error| error.to_string())?;
    Ok((answer.elements().iter())
        .filter(|element| element.error().is_ok())
        .filter_map(|element| {
            let partition = Partition { topic: element.topic().into(), number: element.partition() };
            match element.offset() {
                Offset::Offset(offset) => Some((partition, offset)),
                _ => None,
            }
        })
        .collect())
}

/// The group's committed offsets, with our mark on those that we committed.
pub(super) fn committed(
    client: &Client,
    partitions: &[Partition],
) -> Result<HashMap<Partition, (i64, Option<Mark>)>, String> {
    let answer = client.committed_offsets(list(partitions), PATIENCE).map_err(|error| error.to_string())?;
    let mut committed = HashMap::new();
    for element in answer.elements() {
        element.error().map_err(|error| error.to_string())?;
        if let Offset::Offset(offset) = element.offset() {
            let partition = Partition { topic: element.topic().into(), number: element.partition() };
            committed.insert(partition, (offset, Mark::parse(element.metadata())));
        }
    }
    Ok(committed)
}

pub(super) fn topic_ids(client: &Client, topics: &HashSet<&str>) -> Result<HashMap<String, Uuid>, String> {
    let topics: Vec<&str> = topics.iter().copied().collect();
    native::topic_ids(client.client(), &topics, PATIENCE)
}

/// All topics of the cluster with their numbers of partitions, but for those that Kafka keeps for itself.
pub(super) fn topics(client: &Client) -> Result<BTreeMap<String, i32>, String> {
    let metadata = client.fetch_metadata(None, PATIENCE).map_err(|error| error.to_string())?;
    Ok((metadata.topics().iter())
        .filter(|topic| topic.error().is_none() && !topic.name().starts_with("__"))
        .map(|topic| (topic.name().to_owned(), i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX)))
        .collect())
}

/// A member of a consumer group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) client_id: String,
    pub(super) partitions: BTreeSet<Partition>,
}

pub(super) fn members(client: &Client, group: &str) -> Result<Vec<Member>, String> {
    let groups = client.fetch_group_list(Some(group), PATIENCE).map_err(|error| error.to_string())?;
    Ok((groups.groups().iter())
        .filter(|found| found.name() == group)
        .flat_map(|found| found.members())
        .map(|member| Member {
            id: member.id().to_owned(),
            client_id: member.client_id().to_owned(),
            partitions: member.assignment().and_then(assigned).unwrap_or_default(),
        })
        .collect())
}

/// What a consumer's assignment names: version, then topics with their partitions
/// (<https://kafka.apache.org/protocol>, ConsumerProtocolAssignment).
fn assigned(bytes: &[u8]) -> Option<BTreeSet<Partition>> {
    fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = bytes.split_at_checked(count)?;
        *bytes = rest;
        Some(taken)
    }
    fn int(bytes: &mut &[u8]) -> Option<i32> {
        Some(i32::from_be_bytes(take(bytes, 4)?.try_into().ok()?))
    }
    let mut rest = bytes;
    take(&mut rest, 2)?;
    let mut partitions = BTreeSet::new();
    for _ in 0..int(&mut rest)? {
        let length = usize::from(u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?));
        let topic: Arc<str> = std::str::from_utf8(take(&mut rest, length)?).ok()?.into();
        for _ in 0..int(&mut rest)? {
            partitions.insert(Partition { topic: Arc::clone(&topic), number: int(&mut rest)? });
        }
    }
    Some(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_and_what_is_none_is_not() {
        let bytes = [0, 1, 0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0];
        let numbers: Vec<i32> = assigned(&bytes).expect("an assignment").iter().map(|p| p.number).collect();
        assert_eq!(numbers, [3, 5]);
        for length in 0..22 {
            assert_eq!(assigned(&bytes[..length]), None, "{length}");
        }
    }
}
