//! `dlo migrate`.

use super::{CliError, Global, database, out::Out};
use crate::store::migrate::MigrateError;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Change nothing; exit 3 if the schema is not up to date
    #[arg(long)]
    check: bool,
}

pub(super) async fn migrate(global: &Global, args: Args, out: &mut Out) -> Result<(), CliError> {
    let store = database::reach(global).await?.store;
    if !args.check {
        return match store.migrate().await.map_err(failure)? {
            0 => out.line("the schema is up to date"),
            1 => out.line("applied 1 migration; the schema is up to date"),
            several => out.line(&format!("applied {several} migrations; the schema is up to date")),
        };
    }
    let missing = store.missing().await.map_err(failure)?;
    if missing.is_empty() {
        return out.line("the schema is up to date");
    }
    for migration in &missing {
        out.line(&format!("missing: {migration}"))?;
    }
    out.flush()?;
    Err(CliError::Missing("the schema is not up to date; run: dlo migrate".to_owned()))
}

/// With the server's own words.
pub(super) fn failure(error: MigrateError) -> CliError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let text = format!("{error}{cause}");
    match error {
        MigrateError::Unreachable(_) => CliError::Unreachable(text),
        MigrateError::Encoding(_) | MigrateError::Version(_) => CliError::Usage(text),
        MigrateError::Failed(_) => CliError::Failed(text),
    }
}
