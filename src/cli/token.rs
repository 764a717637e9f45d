//! `dlo token`: who may.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value as Json, json};

use super::{
    CliError, Format,
    client::{Client, parse},
    out::{Out, Paint},
    records::records,
    table::{Cell, Column, lines},
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Make a token; it is shown this once
    Create {
        /// viewer looks, operator acts on letters, admin says who may
        #[arg(long, value_parser = ["viewer", "operator", "admin"])]
        role: String,
        /// Whose; it stands in the audit trail
        #[arg(long)]
        name: String,
    },
    /// List tokens, without themselves
    Ls,
    /// End a token's life, at once
    Revoke {
        /// Whose
        name: String,
    },
}

const COLUMNS: [Column; 4] = [
    Column::fixed("NAME").cut_to(12),
    Column::fixed("ROLE"),
    Column::fixed("CREATED"),
    Column::fixed("REVOKED").leaves(1),
];

pub(super) async fn token(client: &Client, command: Command, out: &mut Out) -> Result<(), CliError> {
    match command {
        Command::Create { role, name } => {
            let text = client.post("tokens", &json!({"name": name, "role": role})).await?;
            if out.format != Format::Table {
                return out.raw_json(&text);
            }
            let made: Json = parse(&text)?;
            out.line(made["token"].as_str().unwrap_or_default())?;
            out.remark(&format!("keep it: {name}'s token ({role}) is not shown again; use it as DLO_TOKEN"));
            Ok(())
        }
        Command::Ls => list(client, out).await,
        Command::Revoke { name } => {
            let encoded = utf8_percent_encode(&name, NON_ALPHANUMERIC);
            client.delete(&format!("tokens/{encoded}")).await?;
            out.line(&format!("token {name}: revoked"))
        }
    }
}

async fn list(client: &Client, out: &mut Out) -> Result<(), CliError> {
    let text = client.get("tokens", &[]).await?;
    let mut page: Json = parse(&text)?;
    let items: Vec<Json> = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    match out.format {
        Format::Json => return out.raw_json(&text),
        Format::Jsonl | Format::Csv => return records(&items, out),
        Format::Table => {}
    }
    if items.is_empty() {
        out.remark("no tokens yet: dlo token create --role admin --name NAME");
        return Ok(());
    }
    let cell = |item: &Json, name: &str| {
        item[name].as_str().unwrap_or("–").chars().take(19).collect::<String>().replace('T', " ")
    };
    let row = |item: &Json| {
        let revoked = !item["revoked_at"].is_null();
        let name =
            Cell::painted(item["name"].as_str().unwrap_or_default(), if revoked { Paint::Dim } else { Paint::Bold });
        vec![
            name,
            Cell::new(&cell(item, "role")),
            Cell::new(&cell(item, "created_at")),
            Cell::painted(&cell(item, "revoked_at"), if revoked { Paint::Red } else { Paint::Dim }),
        ]
    };
    let rows: Vec<_> = items.iter().map(row).collect();
    lines(&COLUMNS, &rows, out.style).iter().try_for_each(|line| out.line(line))
}
