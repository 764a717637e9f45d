//! Kafka as tests use it: topics of their own, records, what a group has committed, members thrown out.

use std::time::Duration;

use dead_letter_office::message::{Headers, RawMessage, Value};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer},
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{SOON, clean_up, services, unique};

pub(crate) struct Kafka {
    pub(crate) brokers: String,
    admin: AdminClient<DefaultClientContext>,
    producer: FutureProducer,
    /// Copies of each topic.
    pub(crate) replication: i32,
    topics: std::sync::Mutex<Vec<String>>,
}

impl Kafka {
    pub(crate) fn connect() -> Self {
        Self::at(&services::kafka())
    }

    pub(crate) fn at(brokers: &str) -> Self {
        let config = config(brokers);
        let mut producing = config.clone();
        producing.set("message.max.bytes", "120000000").set("acks", "all").set("linger.ms", "2");
        Self {
            brokers: brokers.to_owned(),
            admin: config.create().expect("an admin client"),
            producer: producing.create().expect("a producer"),
            replication: 1,
            topics: std::sync::Mutex::default(),
        }
    }

    pub(crate) async fn topic(&self, partitions: i32) -> String {
        self.topic_named(&unique("topic"), partitions, &[]).await
    }

    pub(crate) async fn topic_with(&self, partitions: i32, config: &[(&str, &str)]) -> String {
        self.topic_named(&unique("topic"), partitions, config).await
    }

    pub(crate) async fn topic_named(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> String {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(self.replication));
        let topic = config.iter().fold(topic, |topic, (key, value)| topic.set(key, value));
        super::eventually("the topic is made", SOON, async || {
            let made = self.admin.create_topics([&topic], &options()).await.expect("asked");
            match &made[0] {
                Ok(_) => Some(()),
                // One of that name is being deleted.
                Err((_, rdkafka::types::RDKafkaErrorCode::TopicAlreadyExists)) => None,
                Err((_, why)) => panic!("{name}: {why}"),
            }
        })
        .await;
        self.topics.lock().expect("unpoisoned").push(name.to_owned());
        // The broker answers before it leads the partitions.
        let looking: BaseConsumer = self::config(&self.brokers).create().expect("a client");
        super::eventually("the topic has leaders", SOON, async || {
            let metadata = looking.fetch_metadata(Some(name), SOON).ok()?;
            let topic = metadata.topics().first()?;
            let led = topic.partitions().iter().filter(|p| p.leader() >= 0 && p.error().is_none()).count();
            (led == usize::try_from(partitions).expect("small")).then_some(())
        })
        .await;
        name.to_owned()
    }

    pub(crate) async fn delete_topic(&self, name: &str) {
        let deleted = self.admin.delete_topics(&[name], &options()).await.expect("asked");
        deleted[0].as_ref().unwrap_or_else(|(_, why)| panic!("{name}: {why}"));
    }

    pub(crate) async fn add_partitions(&self, topic: &str, total: usize) {
        let grown = self.admin.create_partitions([&NewPartitions::new(topic, total)], &options()).await.expect("asked");
        grown[0].as_ref().unwrap_or_else(|(_, why)| panic!("{topic}: {why}"));
    }

    /// Removes what lies before an offset, as retention does.
    pub(crate) async fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before)).expect("an offset");
        self.admin.delete_records(&list, &options()).await.expect("deleted");
    }

    /// Sends in order and waits for all.
    pub(crate) async fn send(&self, topic: &str, partition: Option<i32>, messages: &[RawMessage]) {
        let sending: Vec<_> = messages
            .iter()
            .map(|message| {
                let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(topic).headers(owned(&message.headers));
                record.partition = partition;
                record.key = message.key.as_deref();
                record.payload = message.body.as_deref();
                record.timestamp = message
                    .properties
                    .kafka()
                    .and_then(|p| p.timestamp)
                    .map(dead_letter_office::message::RecordTime::millis);
                self.enqueue(record)
            })
            .collect();
        for sent in sending {
            sent.await.expect("the producer lives").unwrap_or_else(|(why, _)| panic!("{topic}: {why}"));
        }
    }

    fn enqueue<'r>(&self, record: FutureRecord<'r, [u8], [u8]>) -> rdkafka::producer::future_producer::DeliveryFuture {
        let mut record = record;
        loop {
            match self.producer.send_result(record) {
                Ok(future) => return future,
                // Its queue is full: it takes a moment.
                Err((_, again)) => {
                    record = again;
                    let _ = self.producer.flush(Duration::from_millis(50));
                }
            }
        }
    }

    /// A producer of one's own, for transactions and other settings.
    pub(crate) fn producer(&self, settings: &[(&str, &str)]) -> FutureProducer {
        let mut config = config(&self.brokers);
        for (key, value) in settings {
            config.set(*key, *value);
        }
        config.create().expect("a producer")
    }

    /// A consumer's view of the cluster, and of a group.
    pub(crate) fn looking(&self, group: &str) -> BaseConsumer {
        config(&self.brokers).set("group.id", group).create().expect("a client")
    }

    /// First and next offset.
    pub(crate) fn bounds(&self, topic: &str, partition: i32) -> (i64, i64) {
        let client: BaseConsumer = config(&self.brokers).create().expect("a client");
        client.fetch_watermarks(topic, partition, SOON).expect("an end")
    }

    /// A consumer of everything, in a group of its own.
    pub(crate) fn reader(&self) -> BaseConsumer {
        let mut config = config(&self.brokers);
        config.set("group.id", unique("reader")).set("auto.offset.reset", "earliest");
        config.create().expect("a client")
    }

    /// Messages of a topic with one partition that the group has not committed.
    pub(crate) fn depth(&self, group: &str, topic: &str) -> i64 {
        let client = self.looking(group);
        self.bounds(topic, 0).1 - self.committed(&client, topic, 0).unwrap_or(0)
    }

    pub(crate) fn committed(&self, client: &BaseConsumer, topic: &str, partition: i32) -> Option<i64> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let committed = client.committed_offsets(list, SOON).expect("an answer");
        match committed.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// Sets a group's offset by hand.
    pub(crate) fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
        self.looking(group).commit(&list, CommitMode::Sync).expect("committed");
    }

    pub(crate) fn members(&self, group: &str) -> Vec<String> {
        let groups = self.looking(group).fetch_group_list(Some(group), SOON).expect("an answer");
        groups.groups().iter().flat_map(|group| group.members()).map(|member| member.id().to_owned()).collect()
    }

    /// Throws the members out of a group, and waits until one has come back: by then it knows that it was out.
    pub(crate) async fn throw_out(&self, group: &str) {
        let members = super::eventually("a member to throw out", SOON, async || {
            Some(self.members(group)).filter(|members| !members.is_empty())
        })
        .await;
        for member in &members {
            self.leave_group(group, member).await;
        }
        super::eventually("a member comes back", SOON, async || {
            self.members(group).iter().any(|member| !members.contains(member)).then_some(())
        })
        .await;
    }

    /// Anybody may say that a member leaves; rdkafka has no call for it. LeaveGroup, version 0 (<https://kafka.apache.org/protocol.html#The_Messages_LeaveGroup>).
    async fn leave_group(&self, group: &str, member: &str) {
        fn string(out: &mut Vec<u8>, text: &str) {
            out.extend_from_slice(&i16::try_from(text.len()).expect("short").to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        let mut request = Vec::new();
        request.extend_from_slice(&13i16.to_be_bytes());
        request.extend_from_slice(&0i16.to_be_bytes());
        request.extend_from_slice(&1i32.to_be_bytes());
        string(&mut request, "dlo-it");
        string(&mut request, group);
        string(&mut request, member);
        let mut stream = TcpStream::connect(self.brokers.split(',').next().expect("one")).await.expect("connected");
        stream.write_all(&i32::try_from(request.len()).expect("short").to_be_bytes()).await.expect("sent");
        stream.write_all(&request).await.expect("sent");
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer[8..], [0, 0], "the member leaves");
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let topics = std::mem::take(&mut *self.topics.lock().expect("unpoisoned"));
        let brokers = self.brokers.clone();
        clean_up(async move {
            let admin: AdminClient<DefaultClientContext> = config(&brokers).create().expect("an admin client");
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            let _ = admin.delete_topics(&names, &options()).await;
        });
    }
}

fn config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(SOON)).request_timeout(Some(SOON))
}

/// Names are UTF-8 here: rdkafka has no others.
fn owned(headers: &Headers) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |owned, (name, value)| {
        let value = match value {
            Value::Void => None,
            value => Some(value.as_bytes().expect("bytes")),
        };
        owned.insert(Header { key: name.as_str().expect("UTF-8"), value })
    })
}
