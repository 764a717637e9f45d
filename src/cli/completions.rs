//! `dlo completions`.

use clap::CommandFactory;

use super::{Cli, CliError, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(super) fn completions(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dlo", &mut script);
    out.bytes(&script)
}
