//! Queues that only delay: a message waits there for its time to live and goes on.
//!
//! A death in one of them is plumbing, not a failure, and the exchange in front of it is the framework's own.

/// Whether messages expire in this queue by design, told by its name.
///
/// `died_in` answers whether the message also died in another queue; a name such as `orders-retry` is common
/// for ordinary queues too, and is a ladder only next to `orders`.
pub(super) fn delays(queue: &[u8], died_in: impl Fn(&[u8]) -> bool) -> bool {
    nservicebus(queue)
        || celery(queue)
        || symfony(queue)
        || laravel(queue)
        || queue == b"taskiq.delay"
        || queue.strip_suffix(b".DQ").is_some_and(|queue| !queue.is_empty())
        || queue.strip_suffix(b"-retry").is_some_and(died_in)
}

/// `nsb.v2.delay-level-07`; the first version had no number.
fn nservicebus(queue: &[u8]) -> bool {
    [b"nsb.v2.delay-level-".as_slice(), b"nsb.delay-level-"].into_iter().any(|prefix| queue.starts_with(prefix))
}

/// `celery_delayed_27`, with the user's prefix and `_` before it where one is configured.
fn celery(queue: &[u8]) -> bool {
    let (name, level) = trailing_digits(queue);
    !level.is_empty() && name.strip_suffix(b"celery_delayed_").is_some_and(|p| p.is_empty() || p.ends_with(b"_"))
}

/// `delay_<exchange>_<routing key>_<milliseconds>_delay`, or `_retry`.
fn symfony(queue: &[u8]) -> bool {
    let Some(rest) = queue.strip_prefix(b"delay_") else { return false };
    let Some(rest) = rest.strip_suffix(b"_delay").or_else(|| rest.strip_suffix(b"_retry")) else { return false };
    let (name, milliseconds) = trailing_digits(rest);
    !milliseconds.is_empty() && name.ends_with(b"_")
}

/// `<queue>.delay.<milliseconds>`.
fn laravel(queue: &[u8]) -> bool {
    let (name, milliseconds) = trailing_digits(queue);
    !milliseconds.is_empty() && name.strip_suffix(b".delay.").is_some_and(|queue| !queue.is_empty())
}

fn trailing_digits(name: &[u8]) -> (&[u8], &[u8]) {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    name.split_at(name.len() - digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_frameworks_delay_in_are_known_by_name() {
        let ladders = [
            "nsb.v2.delay-level-07",
            "nsb.delay-level-00",
            "celery_delayed_27",
            "shop_celery_delayed_0",
            "delay_messages_orders_5000_delay",
            "delay_messages__1000_retry",
            "orders.delay.60000",
            "taskiq.delay",
            "default.DQ",
            "orders-retry",
        ];
        for name in ladders {
            assert!(delays(name.as_bytes(), |queue| queue == b"orders"), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_like_a_ladder_are_ordinary_queues() {
        for name in [
            "",
            "billing-retry",
            "celery_delayed_",
            "xcelery_delayed_1",
            "delay_a_delay",
            ".delay.5",
            ".DQ",
            "orders.delay",
        ] {
            assert!(!delays(name.as_bytes(), |queue| queue == b"orders"), "{name}");
        }
    }
}
