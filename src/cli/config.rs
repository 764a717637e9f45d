//! What commands need of the configuration: the one place where it is read.

use std::time::Duration;

use crate::{
    app::brokers::{Brokers, cluster},
    config::{self, Config, LoadOptions},
};

use super::{CliError, Format, Global, database, error::tell, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Also connect to the database and the brokers
    #[arg(long)]
    online: bool,
}

/// `-c FILE`, `DLO_CONFIG`, a usual place, or the environment alone.
pub(super) fn load(global: &Global) -> Result<Config, CliError> {
    let file = global.config.clone().filter(|file| !file.as_os_str().is_empty());
    Config::load(&LoadOptions::of_process(file)).map_err(|errors| {
        // A line for each fault: who mends one wants to see the next.
        errors.to_string().lines().for_each(tell);
        CliError::Code(2)
    })
}

/// The database's address, secrets and all.
pub(super) fn database_url(global: &Global) -> Result<String, CliError> {
    Ok(load(global)?.database.address().expose())
}

/// Reads the configuration and tells what it guarantees.
pub(super) async fn check(global: &Global, args: CheckArgs, out: &mut Out) -> Result<(), CliError> {
    let config = load(global)?;
    match out.format {
        Format::Table => out.bytes(config.summary().as_bytes())?,
        _ => out.json(&config)?,
    }
    out.flush()?;
    if args.online { online(global, &config, out).await } else { Ok(()) }
}

/// Connects once to everything; all of it is tried, whatever fails.
async fn online(global: &Global, config: &Config, out: &mut Out) -> Result<(), CliError> {
    let mut unreachable = false;
    match database::reach(global).await {
        Ok(reached) => out.line(&format!("# database: answers, as user {}", reached.user))?,
        Err(error) => {
            unreachable = true;
            tell(&error.to_string());
        }
    }
    let brokers = Brokers::new(config, "check").map_err(CliError::Usage)?;
    for (name, broker) in &config.brokers {
        let reached = match broker {
            config::Broker::Rabbitmq(_) => match brokers.get(name) {
                Ok(broker) => broker.channel().await.map(drop).map_err(|error| error.to_string()),
                Err(why) => Err(why),
            },
            config::Broker::Kafka(_) => reach_kafka(config, name).await,
        };
        match reached {
            Ok(()) => out.line(&format!("# broker {name}: answers"))?,
            Err(why) => {
                unreachable = true;
                tell(&format!("broker {name}: {why}"));
            }
        }
    }
    out.flush()?;
    if unreachable { Err(CliError::Code(4)) } else { Ok(()) }
}

async fn reach_kafka(config: &Config, name: &str) -> Result<(), String> {
    let cluster = cluster(config, name)?;
    let reaching = tokio::task::spawn_blocking(move || cluster.reach(Duration::from_secs(10)));
    reaching.await.map_err(|error| error.to_string())?
}

/// The JSON Schema of the configuration.
pub(super) fn schema(out: &mut Out) -> Result<(), CliError> {
    out.json(&config::schema())
}
