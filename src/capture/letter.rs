//! A delivery becomes a dead letter: the dialect reads it.

use std::{borrow::Cow, sync::Arc};

use crate::{
    dead_letter::{DeadLetter, Ids, SourceInfo, Status},
    dialect,
    source::{AckToken, Delivery},
};

pub(super) fn compose(delivery: Delivery, source: &Arc<SourceInfo>, session: Option<i64>) -> (DeadLetter, AckToken) {
    let Delivery { message, captured, token } = delivery;
    let reading = dialect::read(&message, &captured);
    let ids = Ids {
        message_id: dialect::message_id(&message).map(Cow::into_owned),
        correlation_id: dialect::correlation_id(&message).map(Cow::into_owned),
        trace_id: dialect::trace_id(&message).map(str::to_owned),
    };
    let letter = DeadLetter {
        ids,
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
