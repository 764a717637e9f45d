//! Spring Kafka's `@RetryableTopic`: a record that went through retry topics and failed for the last time.
//!
//! Its own origin headers are written at the first failure and kept, whatever topics the record passes after it.

use super::{
    Dialect, Place,
    spring_kafka::{self, Found},
};
use crate::{
    dead_letter::{CapturedFrom, Reading},
    message::RawMessage,
};

#[derive(Debug)]
pub(super) struct SpringKafkaRetryTopic;

impl Dialect for SpringKafkaRetryTopic {
    fn name(&self) -> &'static str {
        "spring-kafka-retry-topic"
    }

    fn read(&self, message: &RawMessage, _captured: &CapturedFrom) -> Option<Reading> {
        let found = Found::in_message(message).filter(Found::is_retry_topic)?;
        let mut reading = found.reading(message);
        // The header is the number of the attempt that would come next: one byte up to 2.7, four since.
        let next = found.retry_attempts.and_then(|bytes| spring_kafka::count(bytes, &[1, 4]));
        reading.failure.attempts = next.and_then(|next| next.checked_sub(1)).filter(|attempts| *attempts >= 0);
        Some(reading)
    }

    fn freshen(&self, message: &mut RawMessage) {
        spring_kafka::freshen(message);
    }

    fn group_topic(&self, message: &RawMessage) -> Option<Place> {
        Found::in_message(message)?.group_topic()
    }
}
