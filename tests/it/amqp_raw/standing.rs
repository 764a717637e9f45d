//! The connection that everyone who consumes from a broker shares.

use dead_letter_office::amqp::connection::{self, ConnectError};
use dead_letter_office::amqp::raw::{RawError, TlsOptions};
use dead_letter_office::amqp::uri::BrokerAddress;
use dead_letter_office::message::{AmqpProperties, Headers, RawMessage, Value};

use super::broker::{Broker, WITHIN};

fn standing(addresses: Vec<BrokerAddress>) -> connection::Broker {
    connection::Broker::new("it", addresses, TlsOptions::default(), "it")
}

pub(super) async fn shared(broker: &Broker) {
    let mut away = broker.address();
    away.port = 1;
    let mut there = broker.address();
    there.channel_max = Some(2);
    let standing = standing(vec![away, there]);
    let first = standing.raw_channel().await.expect("the host that is there");
    let second = standing.raw_channel().await.expect("the same connection");
    let third = standing.raw_channel().await;
    assert!(matches!(third, Err(ConnectError::Raw { error: RawError::NoChannel(2), .. })), "{third:?}");
    first.ping(WITHIN).await.expect("not disturbed");

    // What the broker cannot read costs the connection.
    let headers: Headers = [("odd".into(), Value::Opaque(b"Z".to_vec()))].into_iter().collect();
    let odd = RawMessage::amqp(AmqpProperties::default(), headers, "");
    let ended = second.publish(&"".into(), &"nowhere".into(), &odd, WITHIN).await;
    assert!(matches!(ended, Err(RawError::ConnectionClosed { .. })), "{ended:?}");
    let pinged = first.ping(WITHIN).await;
    assert!(matches!(pinged, Err(RawError::ConnectionClosed { .. })), "{pinged:?}");
    let next = standing.raw_channel().await.expect("another connection");
    next.ping(WITHIN).await.expect("alive");

    standing.close().await;
    assert!(matches!(next.ping(WITHIN).await, Err(RawError::ClosedByUs)));
}

pub(super) async fn nobody(broker: &Broker) {
    let mut away = broker.address();
    away.port = 1;
    let refused = standing(vec![away]).raw_channel().await;
    assert!(matches!(refused, Err(ConnectError::Raw { error: RawError::Lost(_), .. })), "{refused:?}");
    assert!(matches!(standing(Vec::new()).raw_channel().await, Err(ConnectError::NoAddress)));
}
