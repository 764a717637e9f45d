//! One attempt: the letter, its way home, the publish, what to record.

use super::{Confirmed, Patience, PublishError, Publisher};
use crate::{
    dialect::{self, Place, Publish},
    policy::target,
    store::claim::{End, Lease, Letter, Record},
};

/// Makes the attempt of `lease`.
pub(super) async fn attempt(
    broker: &str,
    publisher: &dyn Publisher,
    lease: &Lease,
    letter: Option<Letter>,
    patience: &Patience,
) -> Record {
    let Some(letter) = letter else {
        return record(lease, None, End::Refused("the letter is gone".to_owned()));
    };
    if letter.broker.as_deref() != Some(broker) {
        return not_sent(lease, "the letter has got another broker");
    }
    let publish = match prepare(lease, letter) {
        Ok(publish) => publish,
        Err(why) => return record(lease, None, End::Refused(why)),
    };
    let end = match publisher.publish(&publish, patience).await {
        Ok(confirmed) => routed(confirmed),
        Err(PublishError::Unroutable(why)) => End::Unroutable(why),
        Err(PublishError::Refused(why)) => End::Refused(why),
        Err(PublishError::InDoubt(why)) => End::InDoubt(why),
        Err(PublishError::NotSent(why)) => End::NotSent(why),
    };
    record(lease, Some(&publish), end)
}

/// The one place where success is made, and it takes the publisher's word.
fn routed(_: Confirmed) -> End {
    End::Routed
}

pub(super) fn not_sent(lease: &Lease, why: &str) -> Record {
    record(lease, None, End::NotSent(why.to_owned()))
}

fn prepare(lease: &Lease, letter: Letter) -> Result<Publish, String> {
    let target = target::parse(&lease.target).map_err(|error| error.to_string())?;
    let mut publish = letter.home(&target)?;
    dialect::stamp(&mut publish.message, lease.letter, &lease.token.to_string());
    Ok(publish)
}

fn record(lease: &Lease, publish: Option<&Publish>, end: End) -> Record {
    let (exchange, routing_key) = match publish.map(|publish| &publish.place) {
        Some(Place::Exchange { exchange, routing_key }) => (exchange.as_sql(), routing_key.as_sql()),
        Some(Place::Topic { .. }) | None => (None, None),
    };
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Record { replay: lease.replay, exchange: owned(exchange), routing_key: owned(routing_key), end }
}
