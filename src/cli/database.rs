//! The database of commands that work without a server.

use std::{str::FromStr, time::Duration};

use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::{CliError, Global};
use crate::store::{PgStore, StoreOptions};

const CONNECT_DEADLINE: Duration = Duration::from_secs(6);
/// Commands ask one thing after the other.
const CONNECTIONS_MAX: u32 = 2;

/// A database that answers.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) store: PgStore,
    /// The database's name for us.
    pub(super) user: String,
}

/// Where the database is: the one place that decides. `-c FILE` and the usual files come before the environment.
fn address(global: &Global) -> Result<PgConnectOptions, CliError> {
    let url = super::config::database_url(global)?;
    PgConnectOptions::from_str(&url).map_err(|_| {
        CliError::Usage(
            "the database's address is not understood; write postgres://user:password@host:5432/database".to_owned(),
        )
    })
}

/// Connects once, with a deadline, so that what is wrong is said at once and in the server's words.
pub(super) async fn reach(global: &Global) -> Result<Reached, CliError> {
    let options = address(global)?;
    let place = place(&options);
    let ask = async {
        let mut connection = PgConnection::connect_with(&options).await?;
        sqlx::query_scalar::<_, String>("SELECT current_user::text").fetch_one(&mut connection).await
    };
    let user = match timeout(CONNECT_DEADLINE, ask).await {
        Ok(Ok(user)) => user,
        Ok(Err(error)) => return Err(CliError::Unreachable(format!("{place}: {}", why(&error)))),
        Err(_) => {
            let wait = CONNECT_DEADLINE.as_secs();
            return Err(CliError::Unreachable(format!(
                "{place} does not answer within {wait} s; is the address right?"
            )));
        }
    };
    let instance = format!("cli-{}", std::process::id());
    let store = PgStore::new(StoreOptions { connect: options, max_connections: CONNECTIONS_MAX, instance });
    Ok(Reached { store, user })
}

/// Host and database, never user or password.
fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or("(no database named)");
    format!("PostgreSQL at {}:{}/{database}", options.get_host(), options.get_port())
}

fn why(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            "connection refused; is it running, and is the address right?".to_owned()
        }
        sqlx::Error::Io(io) => io.to_string(),
        sqlx::Error::Database(db) => db.message().to_owned(),
        other => other.to_string(),
    }
}
