//! Ports: opened before anything is promised, served until told to stop.

use std::time::Duration;

use anyhow::Context;
use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Http, Listen},
    store::{PgStore, QueryError, tokens::TokenError},
};

/// Opens a port; a fault names the key.
pub(super) async fn bind(key: &str, at: Listen) -> anyhow::Result<TcpListener> {
    TcpListener::bind(at.0).await.with_context(|| format!("{key}: {} cannot be opened", at.0))
}

/// Serves until told to stop; requests under way get a moment.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> Result<(), String> {
    let stopping = stop.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(stopping.cancelled_owned());
    let moment = async {
        stop.cancelled().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    tokio::select! {
        served = server => served.map_err(|error| error.to_string()),
        () = moment => Ok(()),
    }
}

/// Makes the first admin token and prints it once, with a link, as notebook servers do. Never into the log. Waits for a
/// database that has gone away again.
pub(super) async fn first_token(store: &PgStore, http: &Http) -> Result<(), String> {
    let made = loop {
        match store.ensure_first_token().await {
            Ok(made) => break made,
            Err(TokenError::Query(error @ (QueryError::Unavailable(_) | QueryError::Busy | QueryError::TooSlow))) => {
                tracing::warn!(%error, "cannot see whether there is an admin token; trying again");
            }
            Err(error) => return Err(error.to_string()),
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    if let Some(token) = made {
        let base = http.external_url.as_ref().map_or_else(|| format!("http://{}", http.listen.0), |url| url.expose());
        #[expect(clippy::print_stderr, reason = "shown to the person at the terminal, once")]
        {
            eprintln!("first admin token (shown only now): {}\n  {base}/#token={0}", token.expose());
        }
    }
    Ok(())
}
