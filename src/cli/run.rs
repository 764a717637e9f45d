//! `dlo run`: the sidecar itself.

use super::{CliError, Global, config};
use crate::{
    app::{self, Parts},
    telemetry,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these parts, with commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<Part>,
}

/// What one process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Capture,
    Replay,
    Http,
}

/// Hands over to the application, which lives until it is told to stop.
pub(super) async fn run(global: &Global, args: Args) -> Result<(), CliError> {
    let config = config::load(global)?;
    telemetry::start(&config.log);
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    let parts = Parts { capture: wants(Part::Capture), replay: wants(Part::Replay), http: wants(Part::Http) };
    app::run(config, parts).await.map_err(|error| CliError::Failed(format!("{error:#}")))
}
