//! Dialects: each framework's way to say where a message came from and why it failed.
//!
//! Pure. [`read`] asks the registered dialects in a fixed order; the first that recognises the message speaks.
//! [`home`] makes the publish that sends a letter back.

use crate::{
    dead_letter::{CapturedFrom, Ids, Origin, Reading},
    message::{RawMessage, Text},
};

/// One framework's convention.
pub trait Dialect: Sync {
    /// The value of column `dialect`.
    fn name(&self) -> &'static str;

    /// What this dialect understands of the message; `None` when it is not its own.
    fn read(&self, message: &RawMessage, captured: &CapturedFrom) -> Option<Reading>;

    /// Changes the message so that the framework counts afresh: strips what it wrote when it gave up.
    fn freshen(&self, message: &mut RawMessage);
}

/// Where a replay is asked to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The original exchange and routing key.
    Original,
    /// Only the queue that failed, through the default exchange.
    Queue,
    /// A place named in the request.
    Exchange { exchange: Text, routing_key: Text },
}

/// What to publish, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    pub exchange: Text,
    pub routing_key: Text,
    pub message: RawMessage,
}

/// Why a letter cannot be sent to the target asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoHome {
    #[error("the queue that failed is not known for this letter; name a target")]
    UnknownQueue,
    #[error("the original exchange is not known for this letter; name a target")]
    UnknownOrigin,
}

/// Reads a message. Never fails: unknown stays unknown.
#[must_use]
pub fn read(_message: &RawMessage, _captured: &CapturedFrom) -> Reading {
    Reading::default()
}

/// The publish that sends a letter home. `dialect` is the stored name, `origin` the stored origin.
pub fn home(
    _dialect: Option<&str>,
    _message: RawMessage,
    _origin: &Origin,
    _target: &Target,
) -> Result<Publish, NoHome> {
    Err(NoHome::UnknownOrigin)
}

/// By what a message is known elsewhere.
#[must_use]
pub fn ids(_message: &RawMessage) -> Ids {
    Ids::default()
}
