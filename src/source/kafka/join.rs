//! A consumer joins its group.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rdkafka::{ClientConfig, consumer::Consumer};
use tokio::runtime::Handle;
use uuid::Uuid;

use super::{
    Settings,
    broker::{self, Client},
    resolve::chain,
    shared::Shared,
};
use crate::{
    kafka::{
        client::Logged,
        native::{Event, Queue},
    },
    source::{PositionLedger, positions::Group},
};

pub(super) struct Joined {
    pub(super) client: Arc<Client>,
    pub(super) queue: Queue,
    pub(super) group: Arc<Group>,
    pub(super) installation: Uuid,
    pub(super) all_topics: BTreeSet<String>,
    pub(super) subscribed: BTreeSet<String>,
}

/// By this prefix and the installation's id members of the group know each other.
fn client_id(installation: Uuid) -> String {
    format!("dlo-{installation}")
}

pub(super) fn join(
    settings: &Settings,
    ledger: &dyn PositionLedger,
    runtime: &Handle,
    shared: &Shared,
) -> Result<Joined, String> {
    let installation = runtime.block_on(ledger.installation()).map_err(|error| chain(&error))?;
    let id = client_id(installation);
    let client: Client = config(settings, &id).create_with_context(Logged).map_err(|error| error.to_string())?;
    let mut queue = Queue::of_consumer(client.client()).ok_or("librdkafka has no queue for this consumer")?;
    let Some(cluster) = client.client().fetch_cluster_id(broker::PATIENCE) else {
        return Err(why_not(&mut queue).unwrap_or_else(|| "no broker of the cluster answers".to_owned()));
    };
    refuse_strangers(&client, &settings.group, &id)?;
    let all_topics: BTreeSet<String> = broker::topics(&client)?.into_keys().collect();
    let subscribed = settings.topics.subscribed(&all_topics);
    let group = Arc::new(Group { cluster, name: settings.group.clone() });
    shared.joined(Arc::clone(&group));
    let names: Vec<&str> = subscribed.iter().map(String::as_str).collect();
    client.subscribe(&names).map_err(|error| error.to_string())?;
    Ok(Joined { client: Arc::new(client), queue, group, installation, all_topics, subscribed })
}

/// Why a cluster is not to be had is told as an event, amid log lines: a login, a certificate, a name.
fn why_not(queue: &mut Queue) -> Option<String> {
    // The first says why; later ones only that all brokers are down.
    let mut texts = (0..100).filter_map(|_| match queue.poll(Duration::from_millis(1)) {
        Some(Event::Error { text, .. }) => Some(text),
        _ => None,
    });
    texts.next()
}

/// Two installations in one group would share the messages between two databases without a word.
fn refuse_strangers(client: &Client, group: &str, id: &str) -> Result<(), String> {
    let members = broker::members(client, group)?;
    match members.iter().find(|member| member.client_id != id) {
        None => Ok(()),
        Some(member) => Err(format!(
            "consumer group {group:?} has a member that is not of this installation (client.id {:?}): messages it reads \
             would be missing here. Give the source a group of its own (sources[].group), or stop the other consumer",
            member.client_id
        )),
    }
}

/// The settings of a consumer that reads no faster than it can write.
fn config(settings: &Settings, client_id: &str) -> ClientConfig {
    // A third for librdkafka's queue, a third for ours, the rest is on its way to the table.
    let ahead = (settings.share / 3).max(64 * 1024);
    let mut config = settings.cluster.client();
    let ours = [
        ("client.id", client_id.to_owned()),
        ("group.id", settings.group.clone()),
        ("partition.assignment.strategy", "cooperative-sticky".to_owned()),
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        // Of what a producer sends; librdkafka wants it below `fetch.max.bytes` even so.
        ("message.max.bytes", "1000".to_owned()),
        // An offset that is no longer there is for us to count.
        ("auto.offset.reset", "error".to_owned()),
        ("enable.partition.eof", "true".to_owned()),
    ];
    let defaults = [
        ("isolation.level", "read_committed".to_owned()),
        ("queued.max.messages.kbytes", (ahead / 1024).to_string()),
        ("fetch.max.bytes", (ahead / 2).max(1024).to_string()),
        ("max.partition.fetch.bytes", (ahead / 2).max(1024).to_string()),
        // Larger than any message: the broker sends one that is larger than what we ask for.
        ("receive.message.max.bytes", "1000000000".to_owned()),
        // A queue that is full is the rule here; librdkafka waits a second then.
        ("fetch.queue.backoff.ms", "2".to_owned()),
    ];
    for (name, value) in defaults {
        if config.get(name).is_none() {
            config.set(name, value);
        }
    }
    for (name, value) in ours {
        config.set(name, value);
    }
    config
}
