//! What commands need of the configuration: the one place where it is read.

use super::{CliError, Global, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Also connect to the database and the brokers
    #[arg(long)]
    online: bool,
}

/// The database's address. From the environment alone, as long as the configuration is not merged.
pub(super) fn database_url(_global: &Global) -> Result<String, CliError> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    set("DLO_DATABASE_URL").or_else(|| set("DATABASE_URL")).ok_or_else(|| {
        CliError::Usage(
            "no database: set DLO_DATABASE_URL=postgres://user:password@host/database, or ask a server with --server"
                .to_owned(),
        )
    })
}

/// Reads the configuration and tells what it guarantees.
pub(super) async fn check(_global: &Global, args: CheckArgs, _out: &mut Out) -> Result<(), CliError> {
    let what = if args.online { "check --online" } else { "check" };
    Err(CliError::Failed(format!("{what} is not in this build yet")))
}

/// The JSON Schema of the configuration.
pub(super) fn schema(_out: &mut Out) -> Result<(), CliError> {
    Err(CliError::Failed("schema is not in this build yet".to_owned()))
}
