//! The real program as a process of its own: started, signalled, killed, watched from outside.

use std::{
    fs::File,
    io::Write,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use url::Url;

use super::{SOON, database::Database, eventually, link::Link, rabbit::Rabbit, services};

/// Below the ports that clients get, so that nobody takes one between the look and the start.
pub(crate) fn free_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 20_000 + (std::process::id() % 100) as u16 * 100;
    loop {
        let address = SocketAddr::from(([127, 0, 0, 1], base + NEXT.fetch_add(1, Ordering::Relaxed) % 100));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// What the program is told. A change holds for what is started after it.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) database: Url,
    pub(crate) broker: Url,
    pub(crate) exchange: String,
    pub(crate) queue: String,
    pub(crate) queue_type: &'static str,
    pub(crate) deadline_s: u64,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) env: Vec<(&'static str, &'static str)>,
}

impl Setup {
    /// An exchange and a queue of its own, which the program declares.
    pub(crate) fn new(rabbit: &Rabbit, database: &Database) -> Self {
        Self {
            broker: rabbit.urls.amqp.parse().expect("an address"),
            exchange: rabbit.exchange_name(),
            queue: rabbit.queue_name(),
            ..Self::of_database(database)
        }
    }

    /// For those who say in a file of their own what to capture.
    pub(crate) fn of_database(database: &Database) -> Self {
        let mut url: Url = services::database_url().parse().expect("an address");
        url.set_path(&database.name);
        Self {
            database: url,
            broker: services::rabbitmq().amqp.parse().expect("an address"),
            exchange: String::new(),
            queue: String::new(),
            queue_type: "quorum",
            deadline_s: 20,
            http: None,
            metrics: None,
            env: Vec::new(),
        }
    }

    pub(crate) fn database_over(mut self, link: &Link) -> Self {
        over(&mut self.database, link);
        self
    }

    pub(crate) fn broker_over(mut self, link: &Link) -> Self {
        over(&mut self.broker, link);
        self
    }

    pub(crate) fn heartbeat(mut self, seconds: u16) -> Self {
        self.broker.set_query(Some(&format!("heartbeat={seconds}")));
        self
    }

    /// A user of the broker, so that its connections can be told from others'.
    pub(crate) async fn user(mut self, rabbit: &Rabbit, password: &str) -> Self {
        let name = rabbit.user(password).await;
        self.broker.set_username(&name).expect("a user");
        self.broker.set_password(Some(password)).expect("a password");
        self
    }

    fn yaml(&self, http: SocketAddr, metrics: SocketAddr) -> String {
        let Self { exchange, queue, queue_type, deadline_s, .. } = self;
        format!(
            "database: {{ url: \"${{env:DLO_DATABASE_URL}}\" }}\n\
             brokers: {{ rabbit: {{ rabbitmq: {{ url: \"${{env:DLO_RABBITMQ_URL}}\" }} }} }}\n\
             sources: [ {{ name: orders, broker: rabbit, exchange: {exchange}, queue: {queue}, queue_type: {queue_type} }} ]\n\
             http: {{ listen: \"{http}\" }}\n\
             metrics: {{ listen: \"{metrics}\" }}\n\
             shutdown: {{ deadline: {deadline_s}s }}\n"
        )
    }

    pub(crate) fn start(&self) -> Program {
        let (http, metrics) = (self.http.unwrap_or_else(free_port), self.metrics.unwrap_or_else(free_port));
        self.start_with(&self.yaml(http, metrics), metrics)
    }

    pub(crate) fn start_with(&self, yaml: &str, metrics: SocketAddr) -> Program {
        let directory = tempfile::tempdir().expect("a folder");
        let config = directory.path().join("dlo.yaml");
        File::create(&config).and_then(|mut file| file.write_all(yaml.as_bytes())).expect("written");
        let command = || {
            let mut command = program();
            command.arg("run").arg("-c").arg(&config);
            command.env("DLO_DATABASE_URL", self.database.as_str()).env("DLO_RABBITMQ_URL", self.broker.as_str());
            command.envs(self.env.iter().copied());
            command
        };
        Program::start(command(), metrics, directory)
    }

    /// Without a file, as the smallest installation does it.
    pub(crate) fn start_from_environment(&self) -> Program {
        let (http, metrics) = (free_port(), free_port());
        let mut command = program();
        command
            .arg("run")
            .env("DLO_DATABASE_URL", self.database.as_str())
            .env("DLO_RABBITMQ_URL", self.broker.as_str())
            .env("DLO_RABBITMQ_EXCHANGE", &self.exchange)
            .env("DLO_RABBITMQ_QUEUE", &self.queue)
            .env("DLO_HTTP_LISTEN", http.to_string())
            .env("DLO_METRICS_LISTEN", metrics.to_string());
        Program::start(command, metrics, tempfile::tempdir().expect("a folder"))
    }
}

fn over(url: &mut Url, link: &Link) {
    url.set_ip_host(link.address.ip()).expect("a host");
    url.set_port(Some(link.address.port())).expect("a port");
}

/// `dlo`, with an environment of nothing.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlo"));
    command.env_clear().env("RUST_BACKTRACE", "1");
    command
}

/// A running `dlo`. Killed when dropped; its log is printed when the test has failed.
pub(crate) struct Program {
    child: Child,
    metrics: SocketAddr,
    pub(crate) started: Instant,
    log: PathBuf,
    client: reqwest::Client,
    _directory: tempfile::TempDir,
}

impl Program {
    fn start(mut command: Command, metrics: SocketAddr, directory: tempfile::TempDir) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let log = directory.path().join("log");
        let output = File::create(&log).expect("a log");
        command.current_dir(directory.path()).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a log")).stderr(output);
        let started = Instant::now();
        let child = command.spawn().expect("started");
        let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build().expect("a client");
        Self { child, metrics, started, log, client, _directory: directory }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `TERM`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.expect("kill is there").success(), "{name}");
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        assert_eq!(self.child.try_wait().expect("asked"), None, "ended by itself\n{}", self.log());
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        eventually("dlo ends", within, async || self.child.try_wait().expect("asked")).await
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("asked").is_none()
    }

    /// SIGTERM, and an end in good order. Returns how long that took.
    pub(crate) async fn stop(&mut self, within: Duration) -> Duration {
        let began = Instant::now();
        self.signal("TERM");
        let status = self.ended(within).await;
        assert_eq!(status.code(), Some(0), "{status}");
        began.elapsed()
    }

    async fn get(&self, path: &str) -> Option<(u16, String)> {
        let answer = self.client.get(format!("http://{}{path}", self.metrics)).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// The status of `/livez`, `/readyz`; `None` when nobody answers.
    pub(crate) async fn status(&self, path: &str) -> Option<u16> {
        self.get(path).await.map(|(status, _)| status)
    }

    /// The value of the first metric whose line begins with `name`.
    pub(crate) async fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics").await?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub(crate) async fn wait_for_metric(&self, name: &str, wanted: f64, within: Duration) {
        eventually(&format!("{name} is {wanted}"), within, async || {
            (self.metric(name).await == Some(wanted)).then_some(())
        })
        .await;
    }

    pub(crate) async fn receiving(&self) {
        self.wait_for_metric("dlo_source_up", 1.0, SOON).await;
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).expect("a log")).into_owned()
    }

    /// The most memory it ever had, in MiB.
    pub(crate) fn memory_peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("known");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("--- log of dlo {} (last of {} lines)", self.pid(), lines.len());
            for line in &lines[lines.len().saturating_sub(100)..] {
                eprintln!("{line}");
            }
        }
    }
}
