//! The command line as people and scripts meet it: the built program, its output, its exit codes.

mod act;
mod look;
mod reach;
mod server;
mod sources;
mod terminal;

use std::{process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};

use crate::support::{database::Database, services};

/// The program over a database of its own.
struct Cli {
    database: Database,
    url: String,
    /// An empty place to run in, so that no configuration lies about.
    folder: tempfile::TempDir,
}

/// How it went.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
    bytes: Vec<u8>,
}

impl Ran {
    /// The output as JSON, of a command that worked.
    fn json(&self) -> serde_json::Value {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The one line on stderr of a command that failed with `code`.
    fn fault(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "one clear line: {self:?}");
        self.err.trim_end().strip_prefix("dlo: ").unwrap_or_else(|| panic!("begins with dlo: {self:?}"))
    }
}

impl Cli {
    async fn new() -> Self {
        Self::over(Database::fresh().await)
    }

    fn over(database: Database) -> Self {
        let mut url = url::Url::parse(&services::database_url()).expect("an address");
        url.set_path(&database.name);
        Self { database, url: url.into(), folder: tempfile::tempdir().expect("a folder") }
    }

    async fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[]).await
    }

    async fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let mut command = self.command(env!("CARGO_BIN_EXE_dlo"), env);
        command.args(args);
        finish(command).await
    }

    /// A line of shell in which `dlo` is the program.
    async fn shell(&self, line: &str, env: &[(&str, &str)]) -> Ran {
        let mut command = self.command("bash", env);
        command.args(["-c", &format!("set -o pipefail; dlo() {{ {} \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_dlo"))]);
        finish(command).await
    }

    /// On a pseudo terminal, where stderr is the terminal too.
    async fn terminal(&self, args: &str, env: &[(&str, &str)]) -> Ran {
        let mut command = self.command("script", env);
        command.args(["-qec", &format!("{} {args}", env!("CARGO_BIN_EXE_dlo")), "/dev/null"]);
        finish(command).await
    }

    fn command(&self, program: &str, env: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DLO_") || name == "DATABASE_URL") {
            command.env_remove(name);
        }
        command.env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm");
        command.env("DLO_DATABASE_URL", &self.url).envs(env.iter().copied()).current_dir(self.folder.path());
        command
    }

    /// A letter as a service writes it, naming only the columns of the public contract.
    async fn service_letter(&self, service: &str) -> i64 {
        let sql = format!(
            "INSERT INTO dead_letter_queue (service_name, event_type, payload, error_message, traceback, status)
             VALUES ('{service}', 'contact.merged', '{{\"id\": 7}}', 'duplicate key', 'Traceback: line 1', 'FAILED') RETURNING id"
        );
        self.database.scalar(&sql).await
    }

    /// A letter as capture writes it.
    async fn captured_letter(&self, body: &[u8]) -> i64 {
        use dead_letter_office::message::{AmqpProperties, RawMessage, Value, wire};
        let headers = [("tenant".into(), Value::Str("eu-1".into()))].into_iter().collect();
        let properties = AmqpProperties { content_type: Some("application/json".into()), ..AmqpProperties::default() };
        let mut stored = Vec::new();
        wire::encode(&mut stored, &RawMessage::amqp(properties, headers, ""), None);
        let insert = "INSERT INTO dead_letter_queue (service_name, event_type, payload, error_message, traceback, error_class, source,
                 broker, broker_kind, dialect, origin_exchange, origin_routing_key, origin_queue, consumer, body, payload_state, headers, wire, attempts)
             VALUES ('shop', 'order.placed', $1::text::jsonb, 'SKU-1 has 0 left', 'at a.B', 'com.acme.OutOfStock', 'orders', 'rabbit', 'rabbitmq',
                 'spring-amqp', 'events', 'order.placed', 'shop.in', 'shop.in', $2, 'complete', '{\"tenant\": \"eu-1\"}', $3, 3) RETURNING id";
        let payload = std::str::from_utf8(body).ok().filter(|text| text.starts_with('{'));
        let insert = sqlx::query_scalar(insert).bind(payload).bind(body).bind(stored);
        insert.fetch_one(&self.database.pool).await.expect("a letter")
    }
}

async fn finish(mut command: Command) -> Ran {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = timeout(Duration::from_secs(60), command.output()).await.expect("ends").expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ran { code, out: text(&output.stdout), err: text(&output.stderr), bytes: output.stdout }
}
