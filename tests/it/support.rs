//! What the tests stand on: services, a fresh database and queue each, links that can be cut, waiting.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod database;
pub(crate) mod kafka;
pub(crate) mod letters;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod management;
pub(crate) mod messages;
pub(crate) mod own_broker;
pub(crate) mod program;
pub(crate) mod rabbit;
pub(crate) mod replay;
pub(crate) mod services;
pub(crate) mod shop;

use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that is busy with other things.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Asks `condition` every few milliseconds until it gives something, `within` the time.
pub(crate) async fn eventually<T>(what: &str, within: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let mut pause = tokio::time::interval(Duration::from_millis(5));
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        pause.tick().await;
    }
}

/// The second with `DLO_LONG` set: the same test, with numbers for a quiet hour.
pub(crate) fn short_or_long<T>(short: T, long: T) -> T {
    if std::env::var_os("DLO_LONG").is_some() { long } else { short }
}

/// Moments that differ from run to run, and come again with `DLO_SEED`.
pub(crate) fn seeded() -> (u64, fastrand::Rng) {
    let seed =
        std::env::var("DLO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..1 << 20));
    (seed, fastrand::Rng::with_seed(seed))
}

/// A name that no other test has.
pub(crate) fn unique(what: &str) -> String {
    format!("dlo-it-{what}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12])
}

/// Runs `clean` to its end from a `drop`, where nothing can be awaited, on a runtime of its own.
pub(crate) fn clean_up(clean: impl Future<Output = ()> + Send + 'static) {
    let cleaner = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { drop(tokio::time::timeout(Duration::from_secs(20), clean).await) });
    });
    // A test that has failed already is not to fail over its cleaning.
    drop(cleaner.join());
}

/// Logs of the product and its libraries, with `RUST_LOG` set.
pub(crate) fn log() {
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    }
}
