//! Questions to the brokers of a cluster, over the client of a consumer. They block.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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

/// Members of a group by their client id.
pub(super) fn members(client: &Client, group: &str) -> Result<Vec<String>, String> {
    let groups = client.fetch_group_list(Some(group), PATIENCE).map_err(|error| error.to_string())?;
    Ok((groups.groups().iter())
        .filter(|found| found.name() == group)
        .flat_map(|found| found.members())
        .map(|member| member.client_id().to_owned())
        .collect())
}
