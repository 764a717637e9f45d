//! What every [`Source`] promises, as its contract says, on every broker alike.

mod kafka;
mod memory;
mod rabbitmq;

use std::{collections::BTreeSet, time::Duration};

use dead_letter_office::{
    message::{AmqpProperties, RawMessage, Value},
    source::{AckToken, Acked, Claim, Delivery, Source, SourceError},
};
use futures_util::FutureExt;

use crate::support::{
    SOON,
    database::Tally,
    messages::{bodies, headers, message, numbered, random_bytes, sorted, text},
};

/// A broker with one queue, and hands on it.
trait Harness {
    /// A new source of the queue.
    fn source(&self) -> Box<dyn Source>;
    async fn publish(&self, messages: &[RawMessage]);
    /// Messages that try what the broker can carry.
    fn odd_messages(&self) -> Vec<RawMessage> {
        odd_amqp_messages()
    }
    /// Whether the broker says of a message that it was delivered before.
    const FLAGS_REDELIVERY: bool = true;
    /// What the store does between claim and ack, where the source relies on it.
    async fn store(&self, _claim: &Claim, _deliveries: &[Delivery]) {}
    /// The connection breaks.
    async fn break_session(&self);
    /// Waits until the queue holds that many messages. Only when no source is open: what a source holds is not counted.
    async fn wait_for_depth(&self, expected: usize);
    /// Messages the broker has not given out.
    async fn ready(&self) -> usize;
    /// Messages that a new source may hold at most.
    fn held_at_most(&self) -> usize;
    /// Silence in which a session would end by itself.
    fn silence(&self) -> Duration;
}

macro_rules! every_source {
    ($($behaviour:ident),* $(,)?) => {
        mod on_memory {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(super::memory::Memory::default()).await;
            })*
        }
        mod on_kafka {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                super::$behaviour(super::kafka::Kafka::new().await).await;
            })*
        }
        every_source!(@rabbitmq on_rabbitmq_3_quorum, three, Quorum; $($behaviour),*);
        every_source!(@rabbitmq on_rabbitmq_3_classic, three, Classic; $($behaviour),*);
        every_source!(@rabbitmq on_rabbitmq_4_quorum, four, Quorum; $($behaviour),*);
        every_source!(@rabbitmq on_rabbitmq_4_classic, four, Classic; $($behaviour),*);
    };
    (@rabbitmq $module:ident, $version:ident, $kind:ident; $($behaviour:ident),*) => {
        mod $module {
            use dead_letter_office::source::rabbitmq::topology::QueueType;
            $(#[tokio::test]
            async fn $behaviour() {
                match super::rabbitmq::RabbitMq::$version(QueueType::$kind).await {
                    Some(harness) => super::$behaviour(harness).await,
                    None => eprintln!("skipped: no such RabbitMQ"),
                }
            })*
        }
    };
}

every_source!(
    a_message_arrives_as_it_was_sent,
    a_run_holds_at_least_one_and_at_most_as_many_as_asked_for,
    a_wait_given_up_at_any_moment_loses_and_reorders_nothing,
    acked_messages_leave_the_queue,
    unacked_messages_come_again_after_a_broken_session_flagged_and_in_order,
    tokens_of_an_older_session_are_dropped_and_counted,
    a_claim_on_an_older_session_is_refused,
    not_receiving_bounds_what_is_held_and_keeps_the_session,
    an_empty_source_waits_for_the_first_message,
    closing_while_busy_gives_everything_back,
    a_closed_source_says_so,
    sessions_that_break_again_and_again_lose_nothing,
);

async fn recv(source: &mut dyn Source, max: usize) -> Vec<Delivery> {
    tokio::time::timeout(SOON, source.recv(max)).await.expect("something comes").expect("open")
}

/// Exactly so many messages, in as many runs as it takes.
async fn recv_exactly(source: &mut dyn Source, count: usize) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    while deliveries.len() < count {
        deliveries.extend(recv(source, count - deliveries.len()).await);
    }
    deliveries
}

fn tokens(deliveries: Vec<Delivery>) -> Vec<AckToken> {
    deliveries.into_iter().map(|delivery| delivery.token).collect()
}

fn contents(deliveries: &[Delivery]) -> Vec<&[u8]> {
    deliveries.iter().map(|delivery| delivery.message.body.as_deref().unwrap_or_default()).collect()
}

/// The source goes through the same as in the pipeline: a claim on the batch, then its acks.
async fn claim_and_ack(harness: &impl Harness, source: &mut dyn Source, mut deliveries: Vec<Delivery>) -> Acked {
    let claim = source_claim(source, &mut deliveries).await;
    harness.store(&claim, &deliveries).await;
    source.ack(tokens(deliveries)).await
}

fn odd_amqp_messages() -> Vec<RawMessage> {
    let properties = AmqpProperties {
        content_type: Some("application/json".into()),
        correlation_id: Some("c-1".into()),
        message_id: Some("m-1".into()),
        delivery_mode: Some(2),
        timestamp: Some(1_700_000_000),
        ..AmqpProperties::default()
    };
    let table = headers([
        ("attempt", Value::I32(-3)),
        ("bytes", Value::Bytes(vec![0, 255])),
        ("list", Value::Array(vec![Value::Bool(true), Value::Void, Value::F64(0.5)])),
        ("tenant", text("eu-1")),
    ]);
    vec![
        RawMessage::amqp(properties, table, r#"{"order": 1}"#),
        RawMessage::amqp(AmqpProperties::default(), headers([]), ""),
        RawMessage::amqp(AmqpProperties::default(), headers([]), random_bytes(300_000, 1)),
    ]
}

async fn a_message_arrives_as_it_was_sent(harness: impl Harness) {
    let sent = harness.odd_messages();
    harness.publish(&sent).await;

    let mut source = harness.source();
    let got = recv_exactly(source.as_mut(), sent.len()).await;

    for (got, sent) in got.iter().zip(&sent) {
        assert_eq!(sorted(&got.message.headers), sorted(&sent.headers));
        assert_eq!(got.message.properties, sent.properties);
        assert_eq!(got.message.key, sent.key);
        assert!(got.message.body == sent.body);
        assert!(!got.captured.redelivered);
        assert!(got.captured.queue.is_some() != got.captured.topic.is_some());
    }
    source.close().await;
}

async fn a_run_holds_at_least_one_and_at_most_as_many_as_asked_for(harness: impl Harness) {
    let sent = numbered(0, 300);
    harness.publish(&sent).await;
    let mut source = harness.source();
    let (mut seen, mut broken) = (0, false);

    while seen < 200 {
        let run = recv(source.as_mut(), 7).await;
        assert!((1..=7).contains(&run.len()), "{}", run.len());
        let ascends = |a: &AckToken, b: &AckToken| a.session != b.session || a.position < b.position;
        assert!(run.windows(2).all(|pair| ascends(&pair[0].token, &pair[1].token)));
        seen += run.len();
        if seen > 60 && !broken {
            // The middle of a run, for a source that had more at hand.
            harness.break_session().await;
            broken = true;
        } else {
            claim_and_ack(&harness, source.as_mut(), run).await;
        }
    }
    source.close().await;
}

async fn a_wait_given_up_at_any_moment_loses_and_reorders_nothing(harness: impl Harness) {
    const MESSAGES: usize = 1500;
    let sent = numbered(0, MESSAGES);
    let mut random = fastrand::Rng::with_seed(7);
    let mut source = harness.source();
    let (mut got, mut unacked, mut given_up, mut session) = (Vec::new(), Vec::new(), 0, None);

    let publishing = harness.publish(&sent);
    let receiving = async {
        while got.len() < MESSAGES {
            let patience = match random.u8(0..4) {
                // Polled once.
                0 => source.recv(random.usize(1..50)).now_or_never(),
                _ => {
                    let patience = Duration::from_micros(random.u64(0..2_000));
                    tokio::time::timeout(patience, source.recv(random.usize(1..50))).await.ok()
                }
            };
            let Some(run) = patience else {
                given_up += 1;
                // An answer may need that somebody else gets on as well.
                tokio::task::yield_now().await;
                continue;
            };
            for delivery in run.expect("open") {
                // Not the flag and not the queue's order: a quorum queue takes back, flags and so reorders what was on
                // its way to a consumer that makes room for one with another window.
                assert_eq!(delivery.token.session, *session.get_or_insert(delivery.token.session));
                assert_eq!(delivery.token.position, got.len() as u64 + 1);
                got.push(delivery.message.body.clone().expect("a body"));
                unacked.push(delivery);
            }
            // Now and then, so that windows change while waits are given up.
            if unacked.len() > 20 || got.len() == MESSAGES {
                let count = unacked.len();
                let deliveries = std::mem::take(&mut unacked);
                let acked = claim_and_ack(&harness, source.as_mut(), deliveries).await;
                assert_eq!(acked, Acked { sent: count, stale: 0 });
            }
        }
    };
    tokio::time::timeout(SOON, async { tokio::join!(publishing, receiving) }).await.expect("everything comes");

    assert!(given_up > 10, "{given_up} waits given up are no test");
    assert_eq!(Tally::of(&got), Tally::of(bodies(&sent)));
    source.close().await;
    harness.wait_for_depth(0).await;
}

async fn acked_messages_leave_the_queue(harness: impl Harness) {
    harness.publish(&numbered(0, 100)).await;
    let mut source = harness.source();

    let first = recv_exactly(source.as_mut(), 60).await;
    let acked = claim_and_ack(&harness, source.as_mut(), first).await;

    assert_eq!(acked, Acked { sent: 60, stale: 0 });
    source.close().await;
    harness.wait_for_depth(40).await;
}

async fn unacked_messages_come_again_after_a_broken_session_flagged_and_in_order<H: Harness>(harness: H) {
    let sent = numbered(0, 40);
    harness.publish(&sent).await;
    let mut source = harness.source();
    let mut first = recv_exactly(source.as_mut(), 20).await;
    let session = first[0].token.session;
    let mut kept = first.split_off(10);
    claim_and_ack(&harness, source.as_mut(), first).await;
    // Acks are on their way when this returns; a break that overtakes them is another test's.
    let claim = source_claim(source.as_mut(), &mut kept).await;
    source.reclaim(claim).await.expect("alive");

    harness.break_session().await;

    let mut again = Vec::new();
    while again.len() < 30 {
        let run = recv(source.as_mut(), 30).await;
        again.extend(run.into_iter().filter(|delivery| delivery.token.session != session));
    }
    assert_eq!(contents(&again), bodies(&sent[10..]).collect::<Vec<_>>());
    assert!(again[..10].iter().all(|delivery| delivery.captured.redelivered == H::FLAGS_REDELIVERY));
    source.close().await;
}

async fn source_claim(source: &mut dyn Source, batch: &mut Vec<Delivery>) -> Claim {
    source.claim(batch).await.expect("ours to write")
}

async fn tokens_of_an_older_session_are_dropped_and_counted(harness: impl Harness) {
    harness.publish(&numbered(0, 30)).await;
    let mut source = harness.source();
    let old = recv_exactly(source.as_mut(), 10).await;
    let session = old[0].token.session;
    harness.break_session().await;
    let mut new = Vec::new();
    while new.len() < 10 {
        let run = recv(source.as_mut(), 10 - new.len()).await;
        new.extend(run.into_iter().filter(|delivery| delivery.token.session != session));
    }

    let acked = source.ack(tokens(old)).await;

    assert_eq!(acked, Acked { sent: 0, stale: 10 });
    // The new channel is as it was: its own tokens still count.
    assert_eq!(claim_and_ack(&harness, source.as_mut(), new).await, Acked { sent: 10, stale: 0 });
    source.close().await;
    harness.wait_for_depth(20).await;
}

async fn a_claim_on_an_older_session_is_refused(harness: impl Harness) {
    harness.publish(&numbered(0, 10)).await;
    let mut source = harness.source();
    let mut old = recv_exactly(source.as_mut(), 5).await;
    let session = old[0].token.session;
    let claim = source_claim(source.as_mut(), &mut old).await;
    harness.break_session().await;
    while recv(source.as_mut(), 10).await[0].token.session == session {}

    assert!(source.claim(&mut old).await.is_none());
    if let Claim::Session(_) = claim {
        assert!(source.reclaim(claim).await.is_err());
    }
    source.close().await;
}

/// Waits on purpose: silence is what is tested.
async fn not_receiving_bounds_what_is_held_and_keeps_the_session(harness: impl Harness) {
    const MESSAGES: usize = 200;
    let sent: Vec<_> = (0..MESSAGES as u64).map(|n| message(random_bytes(20_000, n))).collect();
    harness.publish(&sent).await;
    let mut source = harness.source();
    let mut unacked = recv_exactly(source.as_mut(), 1).await;
    let session = unacked[0].token.session;

    tokio::time::sleep(harness.silence()).await;

    let held = MESSAGES - harness.ready().await;
    assert!(held <= harness.held_at_most(), "{held} taken at once");
    let mut got = Vec::new();
    while got.len() < MESSAGES {
        assert!(unacked.iter().all(|delivery| delivery.token.session == session), "the session was to live");
        got.extend(unacked.iter().filter_map(|delivery| delivery.message.body.clone()));
        assert_eq!(claim_and_ack(&harness, source.as_mut(), unacked).await.stale, 0);
        unacked = if got.len() < MESSAGES { recv(source.as_mut(), 20).await } else { Vec::new() };
    }
    assert_eq!(Tally::of(&got), Tally::of(bodies(&sent)));
    source.close().await;
    harness.wait_for_depth(0).await;
}

async fn an_empty_source_waits_for_the_first_message(harness: impl Harness) {
    let mut source = harness.source();
    let nothing = tokio::time::timeout(Duration::from_millis(300), source.recv(10)).await;
    assert!(nothing.is_err(), "{nothing:?}");

    let sent = numbered(0, 1);
    let (got, ()) = tokio::join!(recv(source.as_mut(), 10), harness.publish(&sent));

    assert_eq!(contents(&got), bodies(&sent).collect::<Vec<_>>());
    source.close().await;
}

async fn closing_while_busy_gives_everything_back(harness: impl Harness) {
    harness.publish(&numbered(0, 100)).await;
    let mut source = harness.source();
    let _held = recv_exactly(source.as_mut(), 20).await;

    source.close().await;

    harness.wait_for_depth(100).await;
}

async fn a_closed_source_says_so(harness: impl Harness) {
    harness.publish(&numbered(0, 3)).await;
    let mut never_opened = harness.source();
    never_opened.close().await;
    assert!(matches!(never_opened.recv(1).await, Err(SourceError::Closed)));

    let mut source = harness.source();
    recv(source.as_mut(), 1).await;
    source.close().await;
    source.close().await;

    assert!(matches!(source.recv(1).await, Err(SourceError::Closed)));
}

async fn sessions_that_break_again_and_again_lose_nothing(harness: impl Harness) {
    let sent = numbered(0, 400);
    harness.publish(&sent).await;
    let mut source = harness.source();
    // An ack in the moment of a break may or may not have arrived.
    let (mut acked, mut in_doubt, mut runs) = (BTreeSet::new(), BTreeSet::new(), 0);

    while acked.union(&in_doubt).count() < 400 {
        let mut run = recv(source.as_mut(), 25).await;
        runs += 1;
        if runs % 5 == 0 {
            harness.break_session().await;
            continue;
        }
        if let Some(claim) = source.claim(&mut run).await {
            let run_bodies: Vec<_> = run.iter().map(|d| d.message.body.clone().expect("a body")).collect();
            harness.store(&claim, &run).await;
            let told = source.ack(tokens(run)).await;
            if told.stale == 0 { &mut acked } else { &mut in_doubt }.extend(run_bodies);
        }
    }

    assert!(in_doubt.len() < 200, "{} in doubt are no test", in_doubt.len());
    source.close().await;
}
