//! Numbered messages, published with confirms at a steady rate through whatever happens to the broker.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    SOON,
    database::{Database, Tally},
    eventually,
    messages::random_text,
    rabbit::Rabbit,
};

/// In every body, and never in a log.
pub(crate) const CONFIDENTIAL: &str = "confidential";
const WINDOW: usize = 100;

/// What was published.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) confirmed: BTreeSet<i64>,
    /// Sent when the broker went away: it may have them or not.
    pub(crate) doubtful: BTreeSet<i64>,
    tally: Tally,
}

/// A publisher at work.
pub(crate) struct Load {
    publishing: JoinHandle<Sent>,
    /// How many messages are to be confirmed before it ends.
    wanted: Arc<AtomicUsize>,
}

impl Load {
    /// Publishes until `count` messages are confirmed, at most `rate` a second.
    pub(crate) fn start(rabbit: &Rabbit, exchange: &str, count: usize, rate: usize) -> Self {
        let wanted = Arc::new(AtomicUsize::new(count));
        let publishing = publish(rabbit.urls.amqp.clone(), exchange.to_owned(), rate, Arc::clone(&wanted));
        Self { publishing: tokio::spawn(publishing), wanted }
    }

    /// Publishes until it is [stopped](Load::stop).
    pub(crate) fn endless(rabbit: &Rabbit, exchange: &str, rate: usize) -> Self {
        Self::start(rabbit, exchange, usize::MAX, rate)
    }

    pub(crate) async fn stop(self) -> Sent {
        self.wanted.store(0, Ordering::Release);
        self.finished().await
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.publishing.is_finished()
    }

    pub(crate) async fn finished(self) -> Sent {
        self.publishing.await.expect("published")
    }
}

fn body(number: i64) -> Vec<u8> {
    let text = random_text(200, number as u64).replace(['"', '\\'], " ");
    format!(r#"{{"order": {number}, "{CONFIDENTIAL}": "{text}"}}"#).into_bytes()
}

async fn publish(url: String, exchange: String, rate: usize, wanted: Arc<AtomicUsize>) -> Sent {
    let mut sent = Sent::default();
    let mut next = 0;
    let mut tick = interval(Duration::from_secs_f64(WINDOW as f64 / rate as f64));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut link: Option<(Connection, Channel)> = None;
    loop {
        let missing = wanted.load(Ordering::Acquire).saturating_sub(sent.confirmed.len());
        if missing == 0 {
            return sent;
        }
        tick.tick().await;
        let Some((_, channel)) = &link else {
            // The broker is away: no busy loop.
            match timeout(SOON, connect(&url)).await {
                Ok(Ok(made)) => link = Some(made),
                Ok(Err(_)) | Err(_) => sleep(Duration::from_millis(200)).await,
            }
            continue;
        };
        let numbers = next..next + WINDOW.min(missing) as i64;
        next = numbers.end;
        let known = timeout(SOON, window(channel, &exchange, numbers.clone(), &mut sent)).await;
        if !matches!(known, Ok(Ok(()))) {
            sent.doubtful.extend(numbers.filter(|number| !sent.confirmed.contains(number)));
            link = None;
        }
    }
}

async fn connect(url: &str) -> lapin::Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok((connection, channel))
}

async fn window(
    channel: &Channel,
    exchange: &str,
    numbers: std::ops::Range<i64>,
    sent: &mut Sent,
) -> lapin::Result<()> {
    let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let mut headers = FieldTable::default();
    headers.insert("x-first-death-queue".into(), AMQPValue::LongString("orders".into()));
    headers.insert("x-exception-message".into(), AMQPValue::LongString("it broke".into()));
    let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
    let mut confirms = Vec::with_capacity(WINDOW);
    for number in numbers {
        let body = body(number);
        let confirm =
            channel.basic_publish(exchange.into(), "order.failed".into(), mandatory, &body, properties.clone()).await?;
        confirms.push((number, body, confirm));
    }
    for (number, body, confirm) in confirms {
        let confirmation = confirm.await?;
        if confirmation.is_ack() {
            assert!(confirmation.take_message().is_none(), "not routed");
            let one = Tally::of([&body]);
            sent.tally = Tally { count: sent.tally.count + one.count, sum: sent.tally.sum + one.sum };
            sent.confirmed.insert(number);
        } else {
            sent.doubtful.insert(number);
        }
    }
    Ok(())
}

impl Sent {
    /// Waits until everything is in the table.
    pub(crate) async fn stored(&self, database: &Database, within: Duration) {
        eventually(&format!("{} rows", self.confirmed.len()), within, async || {
            // Counting a large table two hundred times a second would be a load of its own.
            sleep(Duration::from_millis(100)).await;
            let stored: i64 =
                database.try_scalar("SELECT count(*) FROM dead_letter_queue WHERE status <> 'DUPLICATE'").await?;
            (usize::try_from(stored).expect("a count") >= self.confirmed.len()).then_some(())
        })
        .await;
    }

    /// The promise: every message is in the table once, and a second copy says of which row. Returns their number.
    pub(crate) async fn is_exactly_once_in(&self, database: &Database) -> i64 {
        let numbers: Vec<i64> = sqlx::query_scalar(
            "SELECT (payload->>'order')::bigint FROM dead_letter_queue WHERE status <> 'DUPLICATE' ORDER BY 1",
        )
        .fetch_all(&database.pool)
        .await
        .expect("read");
        let found: BTreeSet<i64> = numbers.iter().copied().collect();
        let twice: Vec<_> = numbers.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        let lost: Vec<_> = self.confirmed.difference(&found).collect();
        let strange: Vec<_> =
            found.iter().filter(|n| !self.confirmed.contains(n) && !self.doubtful.contains(n)).collect();
        assert!(lost.is_empty(), "{} lost: {:?}…", lost.len(), &lost[..lost.len().min(10)]);
        assert!(twice.is_empty(), "{} twice, unmarked: {:?}…", twice.len(), &twice[..twice.len().min(10)]);
        assert!(strange.is_empty(), "{} never sent: {:?}…", strange.len(), &strange[..strange.len().min(10)]);
        let wrong: i64 = database
            .scalar(
                "SELECT count(*) FROM dead_letter_queue d LEFT JOIN dead_letter_queue o ON o.id = d.duplicate_of
                 WHERE d.status = 'DUPLICATE'
                   AND (o.id IS NULL OR o.status = 'DUPLICATE' OR o.body IS DISTINCT FROM d.body
                        OR o.payload->>'order' IS DISTINCT FROM d.payload->>'order')",
            )
            .await;
        assert_eq!(wrong, 0, "second copies that do not name their first");
        let other: i64 =
            database.scalar("SELECT count(*) FROM dead_letter_queue WHERE status NOT IN ('FAILED', 'DUPLICATE')").await;
        assert_eq!(other, 0, "rows of another status");
        assert_eq!(database.scalar::<i64>("SELECT count(*) FROM dlo_quarantine").await, 0, "rows in quarantine");
        if self.doubtful.is_empty() {
            assert_eq!(database.failed().await, self.tally, "bodies differ");
        }
        database.scalar("SELECT count(*) FROM dead_letter_queue WHERE status = 'DUPLICATE'").await
    }
}
