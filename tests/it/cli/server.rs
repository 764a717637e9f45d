//! The same commands over the network.

use dead_letter_office::{
    clock::Clock,
    http::{Access, HttpState, router},
    store::tokens::Role,
};
use serde_json::json;
use tokio::net::TcpListener;

use super::Cli;

/// Serves the database of `cli` to those with a token, until the test ends.
async fn serve(cli: &Cli) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let state = HttpState { store: (*cli.database.store()).clone(), access: Access::Token, clock: Clock::system() };
    tokio::spawn(async move { axum::serve(listener, router(state)).await });
    format!("http://{address}")
}

#[tokio::test]
async fn a_server_is_asked_with_the_token_from_the_environment() {
    let cli = Cli::new().await;
    let id = cli.captured_letter(b"\x00exact\xff").await.to_string();
    let server = serve(&cli).await;
    let operator = cli.database.store().create_token("anna", Role::Operator, "test").await.expect("a token");
    let with = |token| [("DLO_SERVER", server.as_str()), ("DLO_TOKEN", token), ("DLO_DATABASE_URL", "")];

    let stranger = cli.run_with(&["ls"], &with("")).await;
    assert!(stranger.fault(1).contains("dlo token create"), "{stranger:?}");
    assert!(cli.run_with(&["ls"], &with("dlo_wrong")).await.fault(1).contains("not known"));
    let env = with(operator.expose());
    assert_eq!(cli.run_with(&["ls", "-ojson"], &env).await.json()["items"][0]["id"].to_string(), id);
    assert_eq!(cli.run_with(&["body", &id], &env).await.bytes, b"\x00exact\xff");
    let replay = cli.run_with(&["replay", &id, "-ojson"], &env).await.json();
    assert_eq!(replay["requested_by"], json!("token:anna"));
    assert!(cli.run_with(&["token", "ls"], &env).await.fault(1).contains("takes the role admin"));
    assert_eq!(cli.run_with(&["show", "99"], &env).await.code, 3);
    assert_eq!(cli.run_with(&["ls", "--since", "x"], &env).await.code, 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_4_and_an_address_that_is_none_2() {
    let cli = Cli::new().await;
    assert!(cli.run(&["ls", "--server", "http://127.0.0.1:1"]).await.fault(4).starts_with("http://127.0.0.1:1: "));
    assert_eq!(cli.run(&["ls", "--server", "localhost:8390"]).await.code, 2);
    let secret = cli.run(&["ls", "--server", "http://u:hunter2@127.0.0.1:1"]).await;
    assert!(secret.fault(2).contains("DLO_TOKEN") && !secret.err.contains("hunter2"), "{secret:?}");
}
