//! The composition root: builds every part, starts them in order, stops them in order.

pub(crate) mod brokers;
mod capture;
mod listen;
mod sources;
mod upkeep;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::time::sleep;

use crate::{
    clock::Clock,
    config::{self, Config, Pem, Tls},
    http::{self, Access, HttpState, ops::OpsState},
    lifecycle::{Signals, Stop, Tasks},
    metrics::{Metrics, SourceMetrics},
    replay::{self, Replay},
    store::{PgStore, StoreOptions, migrate::MigrateError},
};

/// Which parts of the sidecar a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub capture: bool,
    pub replay: bool,
    pub http: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self { capture: true, replay: true, http: true }
    }
}

impl Parts {
    fn names(self) -> Vec<&'static str> {
        let all = [("capture", self.capture), ("replay", self.replay), ("http", self.http)];
        all.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
    }
}

/// The store of a configuration. Connects when first used.
pub fn store(config: &Config) -> anyhow::Result<PgStore> {
    let connect = database_tls(config, config.database.address().expose().parse().context("database.url")?)?;
    let max_connections = u32::try_from(config.database.max_connections.as_usize()).unwrap_or(u32::MAX);
    Ok(PgStore::new(StoreOptions { connect, max_connections, instance: instance() }))
}

/// With an authority of its own the server is checked against it, whatever the address asks for.
fn database_tls(config: &Config, connect: PgConnectOptions) -> anyhow::Result<PgConnectOptions> {
    let Some(Tls { ca, cert, key }) = &config.database.tls else { return Ok(connect) };
    let read = |pem: &Option<Pem>| pem.as_ref().map(|pem| pem.read()).transpose().context("database.tls");
    let mut connect = connect;
    if let Some(ca) = read(ca)? {
        connect = connect.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert_from_pem(ca);
    }
    if let (Some(cert), Some(key)) = (read(cert)?, read(key)?) {
        connect = connect.ssl_client_cert_from_pem(cert).ssl_client_key_from_pem(key);
    }
    Ok(connect)
}

/// A name that people recognise and that no other process has.
fn instance() -> String {
    format!("{}-{}-{:04x}", host(), std::process::id(), fastrand::u16(..))
}

fn host() -> String {
    hostname::get().map_or_else(|_| "localhost".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Runs the sidecar until it is told to stop.
pub async fn run(config: Config, parts: Parts) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("signals")?;
    let stop = Stop::default();
    let metrics = Metrics::new();
    let store = Arc::new(store(&config)?);
    let mut tasks = Tasks::default();
    let sources: Vec<SourceMetrics> =
        config.sources.iter().map(|source| metrics.source(&source.name, &source.broker)).collect();

    let named = config.sources.iter().map(|source| source.name.clone()).zip(sources.iter().cloned()).collect();
    let ops = OpsState { store: (*store).clone(), metrics: metrics.clone(), sources: Arc::new(named) };
    let listener = listen::bind("metrics.listen", config.metrics.listen).await?;
    tasks.spawn("metrics listener", listen::serve(listener, http::ops::router(ops), stop.hard.clone()));
    if parts.http {
        serve_http(&config, &store, &stop, &mut tasks).await?;
    }

    let deadline = config.shutdown.deadline.get();
    let starting = start(config, parts, Arc::clone(&store), metrics, sources, stop.clone());
    let over = stop.hard.clone();
    tasks.spawn("sidecar", async move {
        let ended = starting.await;
        // The metrics listener is there for as long as there is something to measure.
        over.cancel();
        ended
    });
    let ended = tasks.run(&mut signals, &stop, deadline).await;
    tracing::info!("stopped");
    let _ = tokio::time::timeout(Duration::from_secs(1), store.leave()).await;
    ended?;
    Ok(())
}

/// Waits for the schema, then runs the parts. A task of its own: meanwhile metrics and liveness are there.
async fn start(
    config: Config,
    parts: Parts,
    store: Arc<PgStore>,
    metrics: Metrics,
    sources: Vec<SourceMetrics>,
    stop: Stop,
) -> Result<(), String> {
    let prepared = async {
        schema(&store, config.database.migrate).await?;
        if parts.http && config.http.auth == config::Auth::Token {
            listen::first_token(&store, &config.http).await?;
        }
        Ok::<_, String>(())
    };
    let Some(prepared) = stop.soft.run_until_cancelled(prepared).await else { return Ok(()) };
    prepared?;
    let mut tasks = Tasks::default();
    let host = host();
    let retention = config.retention.closed.get();
    tasks.spawn(
        "upkeep",
        upkeep::run(Arc::clone(&store), metrics.clone(), host, parts.names(), retention, stop.soft.clone()),
    );
    if parts.capture {
        let named = config.sources.iter().cloned().zip(sources.iter().cloned()).collect();
        tasks.spawn("source reports", sources::report(Arc::clone(&store), named, stop.soft.clone()));
        capture::start(&config, &store, &sources, &stop, &mut tasks)?;
    }
    if parts.replay {
        replay(&config, &store, &metrics, &stop, &mut tasks)?;
    }
    tracing::info!(instance = store.instance, parts = ?parts.names(), sources = config.sources.len(), "running");
    tasks.supervise(&stop).await.map_err(|died| died.to_string())
}

/// Brings the schema up to date, or waits until somebody has. Databases may come later than we do.
async fn schema(store: &PgStore, migrate: bool) -> Result<(), String> {
    let mut said = false;
    loop {
        let outcome =
            if migrate { store.migrate().await.map(|_| true) } else { store.missing().await.map(|m| m.is_empty()) };
        match outcome {
            Ok(true) => return Ok(()),
            Ok(false) if !std::mem::replace(&mut said, true) => {
                tracing::warn!("the schema is not up to date and database.migrate is false: waiting for `dlo migrate`");
            }
            Ok(false) => {}
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!(error = %chain(&error), "waiting for the database");
                }
            }
            Err(error) => return Err(chain(&error)),
        }
        sleep(Duration::from_millis(500)).await;
    }
}

fn chain(error: &MigrateError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// From the start: a taken port is found at once, and who asks before the database is there gets an answer.
async fn serve_http(config: &Config, store: &Arc<PgStore>, stop: &Stop, tasks: &mut Tasks) -> anyhow::Result<()> {
    let access = match config.http.auth {
        config::Auth::Token => Access::Token,
        config::Auth::None => {
            let hosts = config.http.external_url.iter().map(|url| url.host().to_owned()).collect();
            Access::Open { full: config.http.insecure_full_access, hosts }
        }
        config::Auth::Proxy => anyhow::bail!("http.auth: proxy is not in this version; use token"),
    };
    let state = HttpState { store: (**store).clone(), access, clock: Clock::system() };
    let listener = listen::bind("http.listen", config.http.listen).await?;
    tasks.spawn("http listener", listen::serve(listener, http::router(state), stop.soft.clone()));
    Ok(())
}

fn replay(
    config: &Config,
    store: &Arc<PgStore>,
    metrics: &Metrics,
    stop: &Stop,
    tasks: &mut Tasks,
) -> Result<(), String> {
    // The rest of the deadline is for recording, and for goodbyes that a silent broker does not answer.
    let deadline = config.shutdown.deadline.get();
    let last_call = stop.last_call(deadline.saturating_sub(Duration::from_secs(4)).max(deadline / 2));
    let replay = Replay {
        store: Arc::clone(store),
        publishers: Arc::new(brokers::publishers(config)?),
        metrics: metrics.clone(),
        sources: config.sources.iter().map(|source| source.name.clone()).collect(),
        concurrency: config.replay.concurrency.as_usize(),
        lease: config.replay.lease.get(),
        verdict_window: config.replay.verdict_window.get(),
        rate: config.replay.rate.events_per_second(),
        stop: stop.soft.clone(),
        last_call,
    };
    let beside = replay.clone();
    tasks.spawn("replay", async move {
        replay::run(replay).await;
        Ok(())
    });
    tasks.spawn("replay upkeep", async move {
        replay::look_after(beside).await;
        Ok(())
    });
    Ok(())
}
