//! Delivery reports, and what they mean.

use rdkafka::{
    ClientContext, Message,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode as Code},
    producer::{DeliveryResult, ProducerContext},
};
use tokio::sync::oneshot;

use crate::{
    kafka::{
        client::Logged,
        native::{self, Reach},
    },
    replay::PublishError,
};

/// What librdkafka says of one record.
#[derive(Debug)]
pub(super) struct Delivered {
    error: Option<Code>,
    reach: Reach,
    topic: String,
}

impl Delivered {
    pub(super) fn outcome(self) -> Result<(), PublishError> {
        let Some(code) = self.error else { return Ok(()) };
        let why = format!("topic {:?}: {code}", self.topic);
        Err(match self.reach {
            _ if is_refusal(code) => PublishError::Refused(why),
            Reach::NotSent => PublishError::NotSent(why),
            Reach::Possible | Reach::Arrived => PublishError::InDoubt(why),
        })
    }
}

/// Whether an error says that this record is not taken, now and always.
pub(super) fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::InvalidMessage
            | Code::InvalidMessageSize
            | Code::MessageBatchTooLarge
            | Code::InvalidTopic
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::PolicyViolation
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::UnsupportedForMessageFormat
    )
}

/// Hands each report to whoever waits for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reports;

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, words: &str) {
        Logged.log(level, facility, words);
    }

    fn error(&self, error: KafkaError, why: &str) {
        Logged.error(error, why);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<oneshot::Sender<Delivered>>;

    fn delivery(&self, result: &DeliveryResult<'_>, waiting: Self::DeliveryOpaque) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (message, Some(error.rdkafka_error_code().unwrap_or(Code::Fail))),
        };
        let delivered = Delivered { error, reach: native::reach(message), topic: message.topic().to_owned() };
        // Whoever gave up waiting has said that it is in doubt.
        let _ = waiting.send(delivered);
    }
}
