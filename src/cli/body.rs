//! `dlo body`: exactly what was in the message.

use super::{CliError, client::Client, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which letter
    id: i64,
    /// Print it to the terminal even if it is binary
    #[arg(long)]
    force: bool,
}

pub(super) async fn body(client: &Client, args: Args, out: &mut Out) -> Result<(), CliError> {
    let bytes = client.get_bytes(&format!("letters/{}/body", args.id)).await?;
    if out.style.terminal && !args.force && !is_text(&bytes) {
        return Err(CliError::Usage(format!(
            "the body of letter {} is binary ({} bytes) and would upset the terminal; send it to a file, or add --force",
            args.id,
            bytes.len()
        )));
    }
    out.bytes(&bytes)
}

/// What a terminal shows and does not obey.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_ok_and(|text| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')))
}
