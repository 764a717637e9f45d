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
            // The broker has it; what went wrong is the telling.
            Reach::Arrived => return Ok(()),
            // It was on its way once before it was refused.
            Reach::Possible if !is_of_the_record(code) => PublishError::InDoubt(why),
            // Leaders move, topics go: it is looked for again.
            _ if matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
                PublishError::NotSent(why)
            }
            _ if is_refusal(code) => PublishError::Refused(why),
            Reach::NotSent | Reach::Possible => PublishError::NotSent(why),
        })
    }

    /// Whether it may be another record's fault: brokers take a batch or refuse it whole.
    pub(super) fn may_be_anothers(&self) -> bool {
        self.error.is_some_and(is_of_the_record)
    }
}

/// Whether an error is about what a batch holds: the broker has looked at it, and kept nothing.
fn is_of_the_record(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::InvalidMessage
            | Code::InvalidMessageSize
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidDifferentRecord
            | Code::PolicyViolation
            | Code::UnsupportedForMessageFormat
    )
}

/// Whether an error says that this record is not taken, now and always.
pub(super) fn is_refusal(code: Code) -> bool {
    is_of_the_record(code)
        || matches!(
            code,
            Code::InvalidTopic
                | Code::UnknownTopic
                | Code::UnknownTopicOrPartition
                | Code::TopicAuthorizationFailed
                | Code::ClusterAuthorizationFailed
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
