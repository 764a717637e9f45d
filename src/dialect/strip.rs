//! What brokers write into messages, and we. It goes before every replay, whatever the dialect: a broker or a
//! consumer that finds it again takes the message for one that failed, looped or was delayed before.

use crate::dead_letter::{LETTER_ID, REPLAY_ID};
use crate::message::Headers;

/// Removes what RabbitMQ wrote.
pub(super) fn rabbitmq(headers: &mut Headers) {
    headers.retain(|name, _| !is_rabbitmq(name.as_bytes()));
}

/// Removes the headers of an earlier replay of ours.
pub(super) fn stamps(headers: &mut Headers) {
    headers.retain(|name, _| name != LETTER_ID && name != REPLAY_ID);
}

fn is_rabbitmq(name: &[u8]) -> bool {
    match name {
        // The history, also in its AMQP 1.0 form. Consumers count it, and RabbitMQ before 4.0 adds to it and
        // drops a message whose history looks like a loop.
        b"x-death" | b"x-opt-deaths" => true,
        // Counters and positions of the queue that the letter was read from.
        b"x-delivery-count" | b"x-acquired-count" | b"x-stream-offset" => true,
        // More routing keys: through the default exchange they name queues.
        b"CC" | b"BCC" => true,
        // The delay plugin leaves it negative, which means no delay.
        b"x-delay" => true,
        // Loop control of federation.
        b"x-received-from" => true,
        _ => {
            // Loop control of shovels comes as `x-shovelled` and a few names that start with it.
            [b"x-first-death-".as_slice(), b"x-last-death-", b"x-shovelled"]
                .into_iter()
                .any(|prefix| name.starts_with(prefix))
        }
    }
}
