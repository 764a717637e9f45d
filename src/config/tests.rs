//! The whole configuration, from text to `Config` and to what is said about it.

mod addresses;
mod contract;
mod environment;
mod errors;
mod properties;
mod published;
mod references;
mod secrets;

use std::{collections::HashMap, path::Path};

use super::{Config, ConfigErrors};

fn load(text: &str) -> Result<Config, ConfigErrors> {
    load_with(text, &[])
}

fn load_with(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let env: HashMap<&str, &str> = env.iter().copied().collect();
    Config::from_text(text, "dlo.yaml", &|name| env.get(name).map(|value| (*value).to_owned()), Path::new("."))
}

fn faults(text: &str) -> String {
    load(text).unwrap_err().to_string()
}
