//! Which place a target means for one letter.

use super::{Known, NoHome, Place, Target};
use crate::{
    dead_letter::Origin,
    dialect::{Dialect, read},
    message::RawMessage,
};

pub(super) fn find(
    known: Known<'_>,
    message: &RawMessage,
    speakers: &[&dyn Dialect],
    target: &Target,
) -> Result<Place, NoHome> {
    let on_kafka = message.properties.kafka().is_some();
    match (target, on_kafka) {
        // A letter is published by its own broker.
        (Target::At(Place::Topic { .. }), false) => Err(NoHome::NotOnKafka),
        (Target::At(Place::Exchange { .. }), true) => Err(NoHome::NotOnRabbitmq),
        (Target::At(place), _) => Ok(place.clone()),
        (Target::Queue, true) => {
            speakers.iter().find_map(|dialect| dialect.group_topic(message)).ok_or(NoHome::UnknownGroupTopic)
        }
        (Target::Original, true) => original_topic(known, message),
        (Target::Queue, false) => queue(known, message).ok_or(NoHome::UnknownQueue),
        (Target::Original, false) => original_exchange(known, message),
    }
}

fn queue(known: Known<'_>, message: &RawMessage) -> Option<Place> {
    let queue = |origin: &Origin| origin.queue.clone().map(Place::queue);
    queue(known.origin).or_else(|| queue(&read(message, known.captured).origin))
}

fn original_exchange(known: Known<'_>, message: &RawMessage) -> Result<Place, NoHome> {
    let stored = known.origin;
    let pair = |origin: &Origin| {
        Some(Place::Exchange { exchange: origin.exchange.clone()?, routing_key: origin.routing_key.clone()? })
    };
    // What is read again completes the stored origin; it does not replace one that says something else.
    let agrees = |origin: &Origin| stored.exchange.is_none() || stored.exchange == origin.exchange;
    pair(stored)
        .or_else(|| Some(read(message, known.captured).origin).filter(agrees).as_ref().and_then(pair))
        .or_else(|| queue(known, message))
        .ok_or(NoHome::UnknownExchange)
}

fn original_topic(known: Known<'_>, message: &RawMessage) -> Result<Place, NoHome> {
    let topic = |origin: &Origin| Some(Place::Topic { topic: origin.topic.clone()?, partition: origin.partition });
    topic(known.origin).or_else(|| topic(&read(message, known.captured).origin)).ok_or(NoHome::UnknownTopic)
}
