//! Logs: what happened, with ids and counts; never bodies, headers or secrets.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Log, LogFormat};

/// Starts logging on stderr. Called once; a second call changes nothing.
pub fn start(log: &Log) {
    // lapin reports every broken connection several times over, rdkafka an early close, sqlx every notice; what matters is said here, once.
    let filter =
        format!("{},lapin=off,rdkafka=off,async_rs=off,sqlx=warn,sqlx::pool=off,sqlx_core::pool=off", log.level);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    let _ = match log.format {
        LogFormat::Text => {
            // Colours are for eyes: in a file they are litter.
            let colours = std::io::stderr().is_terminal();
            registry.with(fmt::layer().with_ansi(colours).with_writer(std::io::stderr).with_target(false)).try_init()
        }
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).try_init()
        }
    };
}
