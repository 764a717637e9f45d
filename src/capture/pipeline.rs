//! The loop of one source: receive, batch, write, ack. Small on purpose.

use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesOrdered};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    batch::{Batch, Batcher, Limits},
    writer::{Outcome, Reclaim, Writer},
};
use crate::{
    metrics::SourceMetrics,
    source::{AckToken, Claim, Delivery, Source, SourceError},
    store::PgStore,
};

/// What a pipeline needs beside its source.
#[derive(Clone, Debug)]
pub struct Capture {
    pub store: Arc<PgStore>,
    pub limits: Limits,
    /// Batches on their way at the same time.
    pub writers: usize,
    pub metrics: SourceMetrics,
    /// Stop receiving, write and ack what is in hand.
    pub stop: CancellationToken,
    /// Give up: what is not acked goes back to the broker.
    pub stop_hard: CancellationToken,
}

/// A writer that stopped by itself: a defect of ours, never a broker's or a database's doing.
#[derive(Debug, thiserror::Error)]
#[error("a batch writer of source {0} died")]
pub struct WriterDied(String, #[source] tokio::task::JoinError);

/// Runs until told to stop, or until something dies that must not.
pub async fn run(mut source: Box<dyn Source>, capture: Capture) -> Result<(), WriterDied> {
    let outcome = Pipeline::new(&capture).run(source.as_mut()).await;
    source.close().await;
    outcome
}

struct Pipeline<'a> {
    capture: &'a Capture,
    batcher: Batcher,
    in_flight: FuturesOrdered<JoinHandle<Outcome>>,
    /// Cancelled when the last batch handed to a writer has ended.
    last: CancellationToken,
    reclaims: mpsc::Receiver<Reclaim>,
    ask_reclaim: mpsc::Sender<Reclaim>,
}

impl<'a> Pipeline<'a> {
    fn new(capture: &'a Capture) -> Self {
        let (ask_reclaim, reclaims) = mpsc::channel(capture.writers.max(1));
        let last = CancellationToken::new();
        last.cancel();
        let batcher = Batcher::new(capture.limits);
        Self { capture, batcher, in_flight: FuturesOrdered::new(), last, reclaims, ask_reclaim }
    }

    async fn run(mut self, source: &mut dyn Source) -> Result<(), WriterDied> {
        let mut open = true;
        loop {
            self.dispatch(source, !open).await;
            if !open && self.batcher.is_empty() && self.in_flight.is_empty() {
                return Ok(());
            }
            let room = self.batcher.room();
            tokio::select! {
                biased;
                () = self.capture.stop_hard.cancelled() => return Ok(()),
                Some(done) = self.in_flight.next() => self.finish(source, done).await?,
                Some(ask) = self.reclaims.recv() => {
                    let claim = source.reclaim(ask.claim).await;
                    // A writer that no longer waits has been stopped.
                    let _ = ask.reply.send(claim);
                }
                () = self.capture.stop.cancelled(), if open => open = false,
                run = source.recv(room), if open && room > 0 => match run {
                    Ok(run) => self.take_in(run),
                    Err(SourceError::Closed) => open = false,
                }
            }
        }
    }

    fn take_in(&mut self, run: Vec<Delivery>) {
        self.capture.metrics.received(run.len());
        let now = Instant::now();
        for delivery in run {
            self.batcher.push(delivery, now);
        }
    }

    /// Hands batches to writers: a full one while a writer is free, any when nothing is on its way. What is there
    /// already comes in one run, so waiting for more to come would gain nothing.
    async fn dispatch(&mut self, source: &mut dyn Source, flush: bool) {
        while !self.batcher.is_empty() && self.in_flight.len() < self.capture.writers.max(1) {
            if !(self.batcher.is_full() || flush || self.in_flight.is_empty()) {
                return;
            }
            let mut batch = self.batcher.take();
            let received = batch.deliveries().len();
            let claim = source.claim(batch.deliveries_mut()).await;
            let kept = if claim.is_some() { batch.deliveries().len() } else { 0 };
            if kept < received {
                self.capture.metrics.dropped(received - kept);
                batch.recount();
            }
            if let Some(claim) = claim {
                self.start(source, batch, claim);
            }
        }
    }

    fn start(&mut self, source: &dyn Source, batch: Batch, claim: Claim) {
        let ended = CancellationToken::new();
        let writer = Writer {
            store: Arc::clone(&self.capture.store),
            source: Arc::clone(source.info()),
            metrics: self.capture.metrics.clone(),
            reclaims: self.ask_reclaim.clone(),
            turn: std::mem::replace(&mut self.last, ended.clone()),
            stop_hard: self.capture.stop_hard.clone(),
        };
        self.capture.metrics.in_flight(batch.bytes());
        let bytes = batch.bytes();
        let metrics = self.capture.metrics.clone();
        self.in_flight.push_back(tokio::spawn(async move {
            // Whatever happens to this batch, the next one gets its turn.
            let _ended = ended.drop_guard();
            let outcome = writer.write(batch, claim).await;
            metrics.landed(bytes);
            outcome
        }));
    }

    async fn finish(
        &mut self,
        source: &mut dyn Source,
        done: Result<Outcome, tokio::task::JoinError>,
    ) -> Result<(), WriterDied> {
        match done.map_err(|error| WriterDied(source.info().name.clone(), error))? {
            Outcome::Written(tokens) => self.ack(source, tokens).await,
            Outcome::Dropped => {}
        }
        Ok(())
    }

    async fn ack(&self, source: &mut dyn Source, tokens: Vec<AckToken>) {
        let acked = source.ack(tokens).await;
        if acked.stale > 0 {
            self.capture.metrics.stale(acked.stale);
            tracing::info!(source = %source.info().name, messages = acked.stale, "stored, but their channel is gone: not acked");
        }
    }
}
