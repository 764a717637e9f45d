//! What the Kafka source, the publisher and the questions to brokers share: client settings, and the calls for which
//! rdkafka has no safe form.

pub mod client;
#[expect(unsafe_code, reason = "rdkafka hands out neither raw header names nor leader epochs nor topic ids")]
pub(crate) mod native;
