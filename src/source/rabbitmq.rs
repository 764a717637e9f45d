//! RabbitMQ: a queue of our own behind an exchange, or somebody's queue consumed as it is.

mod link;
pub mod prefetch;
pub mod topology;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep_until, timeout};

use self::{
    link::{ANSWER_DEADLINE, Link, LinkError, PING_EVERY},
    prefetch::Prefetch,
    topology::{Queue, TopologyError},
};
use super::{AckToken, Acked, Claim, Delivery, LedgerError, SessionLedger, Source, SourceError, Unclaimed};
use crate::{
    amqp::{
        connection::{Broker, ConnectError},
        raw::RawDelivery,
    },
    dead_letter::{CapturedFrom, SourceInfo},
    metrics::SourceMetrics,
};

/// What a RabbitMQ source is made of.
#[derive(Debug)]
pub struct Settings {
    pub info: Arc<SourceInfo>,
    pub queue: Queue,
    pub broker: Arc<Broker>,
    /// Bytes that may be in flight.
    pub share: usize,
    /// A fixed prefetch in place of one that follows the sizes seen.
    pub prefetch: Option<u16>,
    pub metrics: SourceMetrics,
}

/// A [`Source`] of one queue.
pub struct RabbitSource {
    settings: Arc<Settings>,
    queue_name: Arc<str>,
    ledger: Arc<dyn SessionLedger>,
    link: Option<Link>,
    /// The link being opened, kept here because the wait for it may be given up.
    opening: Option<BoxFuture<'static, Result<Link, OpenError>>>,
    links: u64,
    prefetch: Prefetch,
    pauses: ExponentialBackoff,
    retry_at: Option<Instant>,
    closed: bool,
}

impl std::fmt::Debug for RabbitSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitSource")
            .field("settings", &self.settings)
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("{error}: {}", error.0)]
    Ledger {
        #[from]
        error: LedgerError,
    },
    #[error("the broker does not answer to {0}")]
    Silent(&'static str),
}

/// 200 ms to 30 s, doubled each time, with jitter.
fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(30))
        .with_jitter()
        .without_max_times()
        .build()
}

impl RabbitSource {
    #[must_use]
    pub fn new(settings: Settings, ledger: Arc<dyn SessionLedger>) -> Self {
        let prefetch = settings.prefetch.map_or_else(|| Prefetch::new(settings.share), Prefetch::fixed);
        let queue_name = Arc::from(settings.queue.name.as_str());
        Self {
            settings: Arc::new(settings),
            queue_name,
            ledger,
            link: None,
            opening: None,
            links: 0,
            prefetch,
            pauses: pauses(),
            retry_at: None,
            closed: false,
        }
    }

    fn name(&self) -> &str {
        &self.settings.info.name
    }

    /// Opens a link, however long it takes. Cancel safe: the pause or the attempt under way goes on.
    async fn open(&mut self) {
        while self.link.is_none() {
            if let Some(at) = self.retry_at {
                sleep_until(at).await;
                self.retry_at = None;
            }
            if self.opening.is_none() {
                self.links += 1;
                self.prefetch.restart();
            }
            let (number, prefetch) = (self.links, self.prefetch.current());
            let attempt = || {
                let (settings, ledger) = (Arc::clone(&self.settings), Arc::clone(&self.ledger));
                open_link(settings, ledger, number, prefetch).boxed()
            };
            let opened = self.opening.get_or_insert_with(attempt).await;
            self.opening = None;
            match opened {
                Ok(link) => {
                    tracing::info!(source = self.name(), queue = %self.queue_name, session = link.session.id, "receiving");
                    self.link = Some(link);
                    self.settings.metrics.up();
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    fn failed(&mut self, error: &OpenError) {
        let pause = self.pauses.next().unwrap_or(Duration::from_secs(30));
        self.settings.metrics.down(error.to_string());
        tracing::warn!(source = self.name(), queue = %self.queue_name, retry_in = ?pause, "cannot receive: {error}");
        self.retry_at = Some(Instant::now() + pause);
    }

    /// The link is gone: what it delivered and was not acked is with the broker again.
    async fn lost(&mut self, why: LinkError) {
        let Some(link) = self.link.take() else { return };
        self.note_held();
        let session = Arc::clone(&link.session);
        // All is decided before anything is waited for: this wait, too, may be given up.
        if link.was_sound() {
            self.pauses = pauses();
        }
        self.failed(&OpenError::Link(why));
        drop(link);
        if let Err(error) = self.ledger.close(&session, false).await {
            tracing::debug!(source = self.name(), error = %error.0, "session not marked as closed");
        }
    }

    fn note_held(&self) {
        self.settings.metrics.set_held(self.link.as_ref().map_or(0, Link::unacked));
    }

    fn deliver(&self, received: RawDelivery, number: u64) -> Delivery {
        let captured = CapturedFrom {
            queue: Some(Arc::clone(&self.queue_name)),
            exchange: Some(received.exchange),
            routing_key: Some(received.routing_key),
            redelivered: received.redelivered,
            ..CapturedFrom::default()
        };
        Delivery { message: received.message, captured, token: AckToken { session: number, position: received.tag } }
    }

    /// Waits for the first message, asking now and then whether the broker has our acks.
    async fn first(&mut self) -> Result<Option<(RawDelivery, u64)>, LinkError> {
        let Some(link) = &mut self.link else { return Ok(None) };
        loop {
            if link.session.has_unseen_acks() {
                match timeout(PING_EVERY, link.next(&mut self.prefetch)).await {
                    Ok(received) => return Ok(Some((received?, link.number))),
                    Err(_) => link.ping().await?,
                }
            } else {
                return Ok(Some((link.next(&mut self.prefetch).await?, link.number)));
            }
        }
    }
}

async fn open_link(
    settings: Arc<Settings>,
    ledger: Arc<dyn SessionLedger>,
    number: u64,
    prefetch: u16,
) -> Result<Link, OpenError> {
    let Settings { info, queue, broker, .. } = settings.as_ref();
    let declaring = broker.channel().await?;
    timeout(ANSWER_DEADLINE, queue.prepare(&declaring)).await.map_err(|_| OpenError::Silent("queue.declare"))??;
    let _ = timeout(ANSWER_DEADLINE, declaring.close(200, "declared".into())).await;
    let channel = broker.raw_channel().await?;
    let session = Arc::new(ledger.open(&info.name, &queue.name).await?);
    let opened = Link::open(channel, &queue.name, prefetch, Arc::clone(&session), number).await;
    if opened.is_err() {
        // Nothing came by it. Best effort, as every closing of a session.
        let _ = ledger.close(&session, true).await;
    }
    Ok(opened?)
}

#[async_trait]
impl Source for RabbitSource {
    fn info(&self) -> &Arc<SourceInfo> {
        &self.settings.info
    }

    async fn recv(&mut self, max: usize) -> Result<Vec<Delivery>, SourceError> {
        loop {
            if self.closed {
                return Err(SourceError::Closed);
            }
            self.open().await;
            let (first, number) = match self.first().await {
                Ok(Some(first)) => first,
                Ok(None) => continue,
                Err(why) => {
                    self.lost(why).await;
                    continue;
                }
            };
            let mut run = Vec::with_capacity(max.min(256));
            run.push(self.deliver(first, number));
            // From here to the return nothing waits: a cancelled call loses no delivery.
            while run.len() < max {
                let Some(link) = &mut self.link else { break };
                let Some(received) = link.ready(&mut self.prefetch) else { break };
                run.push(self.deliver(received, number));
            }
            self.note_held();
            return Ok(run);
        }
    }

    async fn claim(&mut self, batch: &mut Vec<Delivery>) -> Option<Claim> {
        let link = self.link.as_ref()?;
        batch.retain(|delivery| delivery.token.session == link.number);
        let last = batch.last()?;
        let mut claim = link.session.will_write(last.token.position, Instant::now());
        claim.raise = batch.iter().any(|delivery| delivery.captured.redelivered);
        Some(Claim::Session(claim))
    }

    async fn reclaim(&mut self, claim: Claim) -> Result<Claim, Unclaimed> {
        let Claim::Session(old) = &claim else { return Ok(claim) };
        let link = self.link.as_mut().filter(|link| link.session.id == old.session.id).ok_or(Unclaimed::SessionOver)?;
        let epoch = if old.raise {
            self.ledger.raise_epoch(&link.session).await
        } else {
            self.ledger.epoch(&link.session).await
        };
        let outcome = match epoch {
            Err(error) => return Err(Unclaimed::Later(error)),
            // Restored from a backup: what this session wrote is gone there, so it starts again.
            Ok(None) => Err(LinkError::Silent("a database that knows this session")),
            // Alive after the epoch was read: its messages cannot have been delivered elsewhere by then.
            Ok(Some(epoch)) => link.ping().await.map(|()| epoch),
        };
        match outcome {
            Ok(epoch) => {
                link.session.seen_alive_at(epoch);
                Ok(Claim::Session(link.session.renew()))
            }
            Err(why) => {
                self.lost(why).await;
                Err(Unclaimed::SessionOver)
            }
        }
    }

    async fn ack(&mut self, tokens: Vec<AckToken>) -> Acked {
        let Some(link) = &mut self.link else { return Acked { sent: 0, stale: tokens.len() } };
        let live = tokens.iter().filter(|token| token.session == link.number);
        let (sent, last) = live.fold((0, None), |(n, _), token| (n + 1, Some(token.position)));
        let stale = tokens.len() - sent;
        let Some(last) = last else { return Acked { sent: 0, stale } };
        if let Err(why) = link.ack(last).await {
            self.lost(why).await;
            return Acked { sent: 0, stale: tokens.len() };
        }
        // Under load nobody waits long enough for the question that `first` asks.
        if link.ping_is_due()
            && let Err(why) = link.ping().await
        {
            self.lost(why).await;
        }
        // A moment in which nothing is half done: the place to open a window of another size.
        if let (Some(better), Some(link)) = (self.prefetch.better(), &mut self.link)
            && let Err(why) = link.resize(better).await
        {
            self.lost(why).await;
        }
        self.note_held();
        Acked { sent, stale }
    }

    async fn close(&mut self) {
        self.closed = true;
        self.settings.metrics.down("stopped".to_owned());
        self.opening = None;
        if let Some(link) = self.link.take() {
            let session = Arc::clone(&link.session);
            let settled = link.close().await;
            // Best effort: an open session only means a wider window to look for second copies in.
            let _ = timeout(Duration::from_secs(2), self.ledger.close(&session, settled)).await;
        }
    }
}
