//! amqps:// to a real RabbitMQ with certificates of its own: letters come in and go home, and what is wrong is said.

use std::path::Path;

use dead_letter_office::source::rabbitmq::topology::QueueType;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::support::{
    SOON,
    database::Database,
    eventually,
    messages::numbered,
    own_broker::OwnBroker,
    program::{Program, Setup, free_port},
    rabbit::Rabbit,
};

/// An authority, and what it vouches for.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority"))
    }

    fn write(&self, folder: &Path, file: &str) {
        std::fs::write(folder.join(file), self.0.pem()).expect("written");
    }

    /// Writes NAME.pem and NAME.key for `host`.
    fn issue(&self, folder: &Path, name: &str, host: &str, usage: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new([host.to_owned()]).expect("parameters");
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).expect("written");
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("written");
    }
}

struct Tls {
    broker: OwnBroker,
    /// With ca.pem, other.pem (an authority that vouches for nothing there), client.pem and client.key.
    files: tempfile::TempDir,
}

impl Tls {
    fn start(asks_for_certificates: bool) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("dlo test authority");
        authority.write(files.path(), "ca.pem");
        Authority::new("another authority").write(files.path(), "other.pem");
        authority.issue(files.path(), "client", "dlo.test", ExtendedKeyUsagePurpose::ClientAuth);
        let broker = OwnBroker::start(|folder, port| {
            authority.write(folder, "ca.pem");
            authority.issue(folder, "server", "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
            let folder = folder.display();
            let verify = if asks_for_certificates { "verify_peer" } else { "verify_none" };
            format!(
                "\nlisteners.ssl.default = 127.0.0.1:{port}\n\
                 ssl_options.cacertfile = {folder}/ca.pem\n\
                 ssl_options.certfile = {folder}/server.pem\n\
                 ssl_options.keyfile = {folder}/server.key\n\
                 ssl_options.verify = {verify}\n\
                 ssl_options.fail_if_no_peer_cert = {asks_for_certificates}\n"
            )
        });
        Self { broker, files }
    }

    async fn office(&self) -> Office<'_> {
        let (rabbit, database) = (Rabbit::at(self.broker.urls.clone()).await, Database::fresh().await);
        // A machine that trusts nobody, as many containers are.
        let env = vec![("SSL_CERT_FILE", "/nonexistent"), ("SSL_CERT_DIR", "/nonexistent")];
        let setup = Setup { broker: self.broker.tls_url(), env, ..Setup::new(&rabbit, &database) };
        Office { tls: self, rabbit, database, setup }
    }
}

struct Office<'a> {
    tls: &'a Tls,
    rabbit: Rabbit,
    database: Database,
    setup: Setup,
}

impl Office<'_> {
    fn start(&self, tls: &str) -> Program {
        let metrics = free_port();
        let Setup { exchange, queue, .. } = &self.setup;
        let tls = tls.replace("FILES", &self.tls.files.path().display().to_string());
        let yaml = format!(
            "database: {{ url: \"${{env:DLO_DATABASE_URL}}\" }}\n\
             brokers: {{ rabbit: {{ rabbitmq: {{ url: \"${{env:DLO_RABBITMQ_URL}}\", tls: {{ {tls} }} }} }} }}\n\
             sources: [ {{ name: orders, broker: rabbit, exchange: {exchange}, queue: {queue} }} ]\n\
             http: {{ listen: \"{}\" }}\n\
             metrics: {{ listen: \"{metrics}\" }}\n",
            free_port()
        );
        self.setup.start_with(&yaml, metrics)
    }

    /// A letter dies, is captured and goes to a queue, all of dlo's part over TLS.
    async fn works_with(&self, tls: &str) {
        let mut program = self.start(tls);
        program.receiving().await;
        self.rabbit.publish(&self.setup.exchange, "order.failed", &numbered(0, 10)).await;
        eventually("the rows", SOON, async || (self.database.count().await == 10).then_some(())).await;
        // Asked of the broker, not of our own settings.
        let port = self.setup.broker.port().expect("a port");
        eventually("dlo's connections are encrypted", SOON, async || {
            let all = self.rabbit.management.get("connections").await.unwrap_or_default();
            let ours = all.as_array().into_iter().flatten().filter(|connection| connection["port"] == port);
            let encrypted: Vec<bool> = ours.map(|connection| connection["ssl"] == true).collect();
            (!encrypted.is_empty() && encrypted.into_iter().all(|ssl| ssl)).then_some(())
        })
        .await;

        let home = self.rabbit.queue(QueueType::Classic).await;
        self.database.request_replays_to(&home).await;
        eventually("all at home", SOON, async || {
            (self.database.replays().await == [("DONE ROUTED".to_owned(), 10)].into()).then_some(())
        })
        .await;
        assert_eq!(self.rabbit.ready(&home).await, 10);
        program.stop(SOON).await;
    }

    /// It stays up, captures nothing, and its log has `words`.
    async fn is_refused(&self, tls: &str, words: &[&str]) {
        let mut program = self.start(tls);
        eventually("the reason is told", SOON, async || {
            let log = program.log();
            log.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
        })
        .await;
        assert_eq!(program.metric("dlo_source_up{").await, Some(0.0));
        program.stop(SOON).await;
    }
}

#[tokio::test]
async fn with_its_authority_a_broker_is_trusted_and_with_another_it_is_not() {
    let tls = Tls::start(false);
    let office = tls.office().await;
    office.works_with("ca: FILES/ca.pem").await;
    let address = format!("127.0.0.1:{}", office.setup.broker.port().expect("a port"));
    office.is_refused("ca: FILES/other.pem", &[&address, "certificate"]).await;
    let mut by_name = tls.office().await;
    by_name.setup.broker.set_host(Some("localhost")).expect("a host");
    by_name.is_refused("ca: FILES/ca.pem", &["localhost", "certificate"]).await;
}

#[tokio::test]
async fn a_broker_that_asks_for_our_certificate_gets_it() {
    let tls = Tls::start(true);
    let office = tls.office().await;
    office.works_with("ca: FILES/ca.pem, cert: FILES/client.pem, key: FILES/client.key").await;
    office.is_refused("ca: FILES/ca.pem", &["CertificateRequired"]).await;
}
