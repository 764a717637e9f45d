//! `dlo run`: the sidecar itself.

use super::{CliError, Global};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these parts, with commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    pub(super) only: Vec<Part>,
}

/// What one process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    Capture,
    Replay,
    Http,
}

/// Hands over to the application, which lives until it is told to stop.
pub(super) async fn run(_global: &Global, args: Args) -> Result<(), CliError> {
    let parts = args.only.len();
    Err(CliError::Failed(format!("run is not in this build yet ({parts} parts asked for)")))
}
