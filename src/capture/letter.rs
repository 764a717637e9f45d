//! A delivery becomes a dead letter: the dialect reads it.

use std::sync::Arc;

use crate::{
    dead_letter::{DeadLetter, SourceInfo, Status},
    dialect,
    source::{AckToken, Delivery},
};

pub(super) fn compose(delivery: Delivery, source: &Arc<SourceInfo>, session: Option<i64>) -> (DeadLetter, AckToken) {
    let Delivery { message, captured, token } = delivery;
    let reading = dialect::read(&message, &captured);
    let letter = DeadLetter {
        ids: dialect::ids(&message),
        source: Arc::clone(source),
        session: session.and_then(|id| Some((id, i64::try_from(token.position).ok()?))),
        captured,
        message,
        reading,
        status: Status::Failed,
        replay_of: None,
        duplicate_of: None,
    };
    (letter, token)
}
