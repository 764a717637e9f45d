//! Dead Letter Office.

use std::process::ExitCode;

use dead_letter_office::{
    app,
    config::{Config, LoadOptions},
    telemetry,
};

#[tokio::main]
async fn main() -> ExitCode {
    let config = match Config::load(&LoadOptions::of_process(None)) {
        Ok(config) => config,
        Err(errors) => {
            eprintln!("dlo: {errors}");
            return ExitCode::from(2);
        }
    };
    telemetry::start(&config.log);
    match app::run(config, app::Parts::default()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dlo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
