//! The real program, under load, through crashes, frozen replicas and outages, from start to stop.
//!
//! With `DLO_LONG=1` the same with larger numbers: `DLO_LONG=1 cargo test --test it process:: -- --test-threads 1
//! --nocapture`. `DLO_SEED=N` repeats the moments of a run. Each prints one line of what happened.

mod crash;
mod outages;
mod replicas;
mod rights;
mod services;
mod sources;
mod start;
mod stop;
mod tls;

use std::time::{Duration, Instant};

use crate::support::{
    database::Database,
    load::{CONFIDENTIAL, Sent},
    program::{Program, Setup},
    rabbit::Rabbit,
};

/// A debug build, with everything the libraries hold.
const MEMORY_MIB: u64 = 256;
const LOG_BYTES: usize = 200_000;
/// For the rest of a load to get into the table, on a machine that is busy with other things.
const CATCH_UP: Duration = Duration::from_secs(180);

/// The end of every test: all stored, an orderly stop, an empty queue, each message once.
async fn settles(program: &mut Program, rabbit: &Rabbit, database: &Database, setup: &Setup, sent: &Sent) -> Figures {
    sent.stored(database, CATCH_UP).await;
    let memory = program.memory_peak_mib();
    program.stop(Duration::from_secs(setup.deadline_s)).await;
    assert!(memory <= MEMORY_MIB, "{memory} MiB");
    is_discreet(program, setup);
    rabbit.wait_for_empty(&setup.queue).await;
    let duplicates = sent.is_exactly_once_in(database).await;
    Figures { messages: sent.confirmed.len(), duplicates, memory, log_kb: program.log().len() / 1000 }
}

/// Its log is short and tells no secrets.
fn is_discreet(program: &Program, setup: &Setup) {
    let log = program.log();
    assert!(log.len() <= LOG_BYTES, "{} bytes of log", log.len());
    assert!(!log.contains(CONFIDENTIAL), "a body in the log");
    for url in [&setup.database, &setup.broker] {
        let secret = format!(":{}@", url.password().unwrap_or("none"));
        assert!(!log.contains(&secret), "a password in the log");
    }
    assert!(!log.contains("panicked"), "a panic in the log");
}

struct Figures {
    messages: usize,
    duplicates: i64,
    memory: u64,
    log_kb: usize,
}

impl Figures {
    fn print(&self, test: &str, what: &str, began: Instant) {
        let Self { messages, duplicates, memory, log_kb } = self;
        println!(
            "{test}: {messages} messages, {what}, {duplicates} duplicates, {:.1} s, VmHWM {memory} MiB, log {log_kb} kB",
            began.elapsed().as_secs_f64()
        );
    }
}
