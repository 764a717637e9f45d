//! What is said of an attempt is what happened to it.

use dead_letter_office::{dialect::Target, message::RawMessage, source::rabbitmq::topology::QueueType};
use lapin::types::AMQPValue;
use serde_json::json;

use crate::support::{
    messages::{bodies, message, numbered},
    rabbit::string,
    shop::{CREATED, Shop},
    unique,
};

fn sorted_bodies(messages: &[RawMessage]) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = bodies(messages).map(<[u8]>::to_vec).collect();
    all.sort();
    all
}

async fn taken(shop: &Shop, queue: &str, count: usize) -> Vec<Vec<u8>> {
    let taken: Vec<RawMessage> = shop.rabbit.take(queue, count).await.into_iter().map(|d| d.message).collect();
    sorted_bodies(&taken)
}

/// RR02.
#[tokio::test]
async fn what_no_queue_takes_is_unroutable_and_stays() {
    let shop = Shop::open().await;
    let (bound, unbound) = (numbered(0, 50), numbered(50, 50));
    let office = shop.capture();
    shop.die(&shop.exchange, "bound", bound.clone()).await;
    shop.die(&shop.exchange, "unbound", unbound.clone()).await;
    shop.captured(office, 100).await;
    shop.rabbit.bind(&shop.queue, &shop.exchange, "bound").await;
    shop.rabbit.unbind(&shop.queue, &shop.exchange, "#").await;

    shop.request_all().await;
    let clerk = shop.rules().start();
    shop.all_ended().await;
    clerk.stop().await;

    assert_eq!(shop.bodies_of("DONE ROUTED").await, sorted_bodies(&bound));
    assert_eq!(shop.bodies_of("DONE UNROUTABLE").await, sorted_bodies(&unbound));
    assert_eq!(taken(&shop, &shop.queue, 50).await, sorted_bodies(&bound));
    assert_eq!(shop.rabbit.ready(&shop.queue).await, 0);
    let statuses = shop.database.statuses().await;
    assert_eq!(statuses, [("FAILED".to_owned(), 50), ("REPLAYED".to_owned(), 50)].into());
}

#[tokio::test]
async fn a_queue_that_is_gone_is_unroutable() {
    let shop = Shop::open().await;
    let gone = shop.consumer([]).await;
    let letters = shop.letters("", &gone, numbered(0, 1)).await;
    assert!(shop.rabbit.management.delete_queue(&gone).await);
    let replay = shop.send(letters[0], &Target::Original).await;
    assert_eq!(replay.verdict.as_deref(), Some("UNROUTABLE"));
    assert!(replay.error.expect("a reason").contains("NO_ROUTE"));
    assert_eq!(shop.status(letters[0]).await, "FAILED");
}

/// RR01, RR09: each closes a channel or is refused by a queue; none takes another with it.
#[tokio::test]
async fn refusals_tell_the_brokers_reason_and_spare_their_neighbours() {
    let shop = Shop::open().await;
    let full = shop.rabbit.queue_name();
    let short = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", string("reject-publish"))];
    shop.rabbit.declare(&full, QueueType::Classic, short).await;
    shop.rabbit.publish_to(&full, &[message("first")]).await;

    let with = |body: &str, change: fn(&mut dead_letter_office::message::AmqpProperties)| {
        let mut message = message(body.to_owned());
        change(message.properties.amqp_mut().expect("amqp"));
        message
    };
    let neighbours = numbered(0, 100);
    let mut orders = neighbours.clone();
    orders.insert(20, with("rpc", |p| p.reply_to = Some("amq.rabbitmq.reply-to".into())));
    orders.insert(50, with("user", |p| p.user_id = Some("guest".into())));
    orders.insert(70, message("nowhere"));
    orders.insert(90, message("full"));
    let office = shop.capture();
    // A direct reply-to cannot be published without waiting for the reply, so it is put in afterwards.
    orders[20].properties.amqp_mut().expect("amqp").reply_to = Some("amq.rabbitmq.reply-tp".into());
    shop.die(&shop.exchange, CREATED, orders).await;
    shop.captured(office, 104).await;
    shop.database
        .execute(
            "UPDATE dead_letter_queue SET wire = overlay(wire PLACING 'amq.rabbitmq.reply-to'::bytea
                 FROM position('amq.rabbitmq.reply-tp'::bytea IN wire)) WHERE body = 'rpc'",
        )
        .await;
    shop.request_all().await;
    let redirect = |body: &str, target: serde_json::Value| {
        format!(
            "UPDATE dlo_replays r SET target = '{target}' FROM dead_letter_queue d WHERE d.id = r.letter_id AND d.body = '{body}'"
        )
    };
    shop.database.execute(&redirect("nowhere", json!({"exchange": "dlo-it-no-such", "routing_key": "k"}))).await;
    shop.database.execute(&redirect("full", json!({"queue": full}))).await;

    let clerk = shop.rules().start();
    shop.all_ended().await;
    clerk.stop().await;

    // The user of the message is not ours, so it goes without.
    let mut routed = [neighbours, vec![message("user")]].concat();
    routed.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(shop.bodies_of("DONE ROUTED").await, sorted_bodies(&routed));
    assert_eq!(shop.bodies_of("DONE REFUSED").await, [&b"full"[..], b"nowhere", b"rpc"]);
    assert_eq!(taken(&shop, &shop.queue, 101).await, sorted_bodies(&routed));
    let reasons: Vec<String> = sqlx::query_scalar(
        "SELECT r.error FROM dlo_replays r JOIN dead_letter_queue d ON d.id = r.letter_id WHERE r.verdict = 'REFUSED' ORDER BY d.body",
    )
    .fetch_all(&shop.database.pool)
    .await
    .expect("reasons");
    for (reason, word) in reasons.iter().zip(["nack", "404", "406"]) {
        assert!(reason.contains(word), "{reason}");
    }
    assert!(reasons[1].contains("dlo-it-no-such") && reasons[2].contains("fast reply"), "{reasons:?}");
}

/// A user that may publish where `write` says, and to topics of `exchange` as `topic` says.
async fn user(shop: &Shop, write: &str, topic: Option<(&str, &str)>) -> String {
    let name = unique("user");
    let management = &shop.rabbit.management;
    management.put(&format!("users/{name}"), &json!({"password": "secret", "tags": ""})).await;
    shop.rabbit.delete_at_end(format!("users/{name}"));
    let permissions = json!({"configure": "^$", "write": write, "read": "^$"});
    management.put(&format!("permissions/%2f/{name}"), &permissions).await;
    if let Some((exchange, write)) = topic {
        let permissions = json!({"exchange": exchange, "write": write, "read": "^$"});
        management.put(&format!("topic-permissions/%2f/{name}"), &permissions).await;
    }
    let address = shop.rabbit.host_and_port();
    format!("amqp://{name}:secret@{address}/%2f")
}

#[tokio::test]
async fn a_user_who_may_not_write_is_told_so_for_each_letter_and_other_exchanges_go_on() {
    let shop = Shop::open().await;
    let (forbidden, allowed) = (numbered(0, 20), numbered(20, 20));
    let office = shop.capture();
    shop.die(&shop.exchange, CREATED, forbidden.clone()).await;
    shop.die("", &shop.queue, allowed.clone()).await;
    shop.captured(office, 40).await;
    let url = user(&shop, "^amq.default$", None).await;

    shop.request_all().await;
    let clerk = shop.rules().broker_at(&url).start();
    shop.all_ended().await;
    clerk.stop().await;

    assert_eq!(shop.bodies_of("DONE REFUSED").await, sorted_bodies(&forbidden));
    assert_eq!(shop.bodies_of("DONE ROUTED").await, sorted_bodies(&allowed));
    assert_eq!(taken(&shop, &shop.queue, 20).await, sorted_bodies(&allowed));
    let reason: String = shop.database.scalar("SELECT min(error) FROM dlo_replays WHERE verdict = 'REFUSED'").await;
    assert!(reason.contains("403") && reason.contains(&shop.exchange), "{reason}");
}

/// The broker closes the channel over one routing key of many: which of those under way it was, it does not say.
#[tokio::test]
async fn a_topic_that_is_forbidden_never_makes_a_routed_letter_refused_or_a_refused_one_routed() {
    let shop = Shop::open().await;
    let (allowed, forbidden) = (numbered(0, 300), numbered(300, 30));
    let office = shop.capture();
    for (n, run) in allowed.chunks(10).enumerate() {
        shop.die(&shop.exchange, "open", run.to_vec()).await;
        shop.die(&shop.exchange, "closed", vec![forbidden[n].clone()]).await;
    }
    shop.captured(office, 330).await;
    let url = user(&shop, ".*", Some((&shop.exchange, "^open$"))).await;

    shop.request_all().await;
    let clerk = shop.rules().broker_at(&url).start();
    shop.all_ended().await;
    clerk.stop().await;

    let routed = shop.bodies_of("DONE ROUTED").await;
    let refused = shop.bodies_of("DONE REFUSED").await;
    let doubtful = shop.bodies_of("IN_DOUBT").await;
    assert_eq!(routed.len() + refused.len() + doubtful.len(), 330, "{:?}", shop.outcomes().await);
    let (allowed, forbidden) = (sorted_bodies(&allowed), sorted_bodies(&forbidden));
    assert!(routed.iter().all(|body| allowed.contains(body)));
    assert!(refused.iter().all(|body| forbidden.contains(body)));
    // The window was small when it happened, and from then on each goes alone.
    assert!(doubtful.len() <= 64, "{} in doubt", doubtful.len());
    let arrived = shop.rabbit.ready(&shop.queue).await as usize;
    assert!((routed.len()..=routed.len() + doubtful.len()).contains(&arrived), "{arrived} of {}", routed.len());
    let doubts: i64 = shop.database.scalar("SELECT count(*) FROM dead_letter_queue WHERE notes ? 'in_doubt'").await;
    assert_eq!(usize::try_from(doubts), Ok(doubtful.len()));
}

/// A letter somebody discarded while its replay waited is not sent.
#[tokio::test]
async fn a_letter_that_may_no_longer_be_sent_is_refused() {
    let shop = Shop::open().await;
    let letters = shop.letters(&shop.exchange, CREATED, numbered(0, 1)).await;
    shop.request_all().await;
    shop.database.execute("UPDATE dead_letter_queue SET status = 'DISCARDED'").await;
    let clerk = shop.rules().start();
    shop.all_ended().await;
    clerk.stop().await;
    assert_eq!(shop.outcomes().await, [("DONE REFUSED".to_owned(), 1)]);
    assert_eq!(shop.status(letters[0]).await, "DISCARDED");
    assert_eq!(shop.rabbit.ready(&shop.queue).await, 0);
}
