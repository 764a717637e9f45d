use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Headers;
use crate::config::scalar::{Compare, Globs};

/// Which letters: all terms given must hold. Texts are globs, and a list of them means any of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// Column `service_name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Globs>,
    /// Column `team`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<Globs>,
    /// Column `event_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<Globs>,
    /// The source's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Globs>,
    /// The broker's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<Globs>,
    /// The dialect of the failure headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Globs>,
    /// The number of a failure group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_group: Option<Globs>,
    /// Column `error_class`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<Globs>,
    /// Column `error_message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<Globs>,
    /// Who failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<Globs>,
    /// The original exchange, queue or topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Globs>,
    /// The routing key or record key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Globs>,
    /// The message id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Globs>,
    /// The consumer's own tries, as in `"<10"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Compare>,
    /// A JSONPath predicate that must hold for the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Headers and their values, as `NAME=VALUE` or as a section.
    #[serde(skip_serializing_if = "Headers::is_empty")]
    pub header: Headers,
    /// Words that must occur in the error message or the stack trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Match {
    /// Whether there is no term, so that every letter matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
