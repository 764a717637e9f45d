//! The command line: a client of the HTTP API, over the network or in process.

mod act;
mod body;
mod client;
mod completions;
mod config;
mod database;
mod error;
mod json;
mod ls;
mod metrics;
mod migrate;
mod out;
mod records;
mod replay;
mod run;
mod selection;
mod show;
mod sources;
mod system_user;
mod table;
mod token;
mod wait;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};

pub use self::error::CliError;
use self::{client::Client, out::Out};

/// Captures dead-lettered messages into PostgreSQL, explains why they failed, and sends them home again.
#[derive(Debug, Parser)]
#[command(name = "dlo", version, propagate_version = true, max_term_width = 110, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed at work; 2 usage or configuration; 3 not found or not up to date; \
     4 cannot reach database, broker or server; 130 interrupted.";

/// What every command understands.
#[derive(Debug, clap::Args)]
struct Global {
    /// Ask this server instead of the database; its token comes from DLO_TOKEN
    #[arg(long, global = true, value_name = "URL", env = "DLO_SERVER", hide_env_values = true)]
    server: Option<String>,
    /// Configuration file
    #[arg(short, long, global = true, value_name = "FILE", env = "DLO_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// How to print: a table for people, the rest for programs
    #[arg(short, long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Table,
    Json,
    Jsonl,
    Csv,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The sidecar: capture, replay and HTTP in one process
    Run(run::Args),
    /// Bring the database's schema up to date
    Migrate(migrate::Args),
    /// Read the configuration and tell what it guarantees
    Check(config::CheckArgs),
    /// List letters, newest first
    Ls(Box<ls::Args>),
    /// One letter: what failed, why, where from
    Show(show::Args),
    /// A letter's exact bytes, on stdout
    Body(body::Args),
    /// Send letters home
    Replay(Box<replay::Args>),
    /// Decide that letters are never sent home
    Discard(act::Args),
    /// Put letters back to FAILED
    Reopen(act::Args),
    /// Mark letters as seen to by other means
    Resolve(act::Args),
    /// What is captured from, and how far
    Sources(sources::Args),
    /// Who may use the API
    #[command(subcommand)]
    Token(token::Command),
    /// List the metrics
    Metrics,
    /// Print the OpenAPI document
    Openapi,
    /// Print the JSON Schema of the configuration
    Schema,
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Parses, runs, and tells how it went. The whole of `main`.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help that nobody reads to its end is no failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return CliError::Failed(format!("no runtime: {error}")).report(),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            // Signals are part of its work.
            Command::Run(args) => run::run(&cli.global, args).await,
            command => {
                log();
                tokio::select! {
                    outcome = dispatch(&cli.global, command) => outcome,
                    _ = tokio::signal::ctrl_c() => Err(CliError::Interrupted),
                }
            }
        }
    });
    // A connection that does not close is no reason to stay.
    runtime.shutdown_background();
    outcome.map_or_else(CliError::report, |()| ExitCode::SUCCESS)
}

/// Commands speak through their errors; what lies beneath is heard with DLO_LOG only.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DLO_LOG").unwrap_or_else(|_| "off".into());
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

async fn dispatch(global: &Global, command: Command) -> Result<(), CliError> {
    let mut out = Out::stdout(global.output);
    match command {
        Command::Run(args) => run::run(global, args).await,
        Command::Migrate(args) => migrate::migrate(global, args, &mut out).await,
        Command::Check(args) => config::check(global, args, &mut out).await,
        Command::Ls(args) => ls::ls(&Client::open(global).await?, *args, &mut out).await,
        Command::Show(args) => show::show(&Client::open(global).await?, args, &mut out).await,
        Command::Body(args) => body::body(&Client::open(global).await?, args, &mut out).await,
        Command::Replay(args) => {
            let request = args.check()?;
            replay::replay(&Client::open(global).await?, *args, request, &mut out).await
        }
        Command::Discard(args) => act::act(&Client::open(global).await?, "discard", args, &mut out).await,
        Command::Reopen(args) => act::act(&Client::open(global).await?, "reopen", args, &mut out).await,
        Command::Resolve(args) => act::act(&Client::open(global).await?, "resolve", args, &mut out).await,
        Command::Sources(args) => sources::sources(&Client::open(global).await?, args, &mut out).await,
        Command::Token(command) => token::token(&Client::open(global).await?, command, &mut out).await,
        Command::Metrics => metrics::metrics(&mut out),
        Command::Openapi => out.json(&crate::http::openapi()),
        Command::Schema => config::schema(&mut out),
        Command::Completions(args) => completions::completions(&args, &mut out),
    }?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
