//! A RabbitMQ of a test's own, for settings that the common one does not have: started by the scripts that everybody
//! uses, from a copy of them, so that its data lies apart.

use std::{
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use url::Url;

use super::services::BrokerUrls;

/// Where the common broker is, and how many ports one takes: for AMQP, management and two of Erlang's, and one for
/// whatever the settings want.
const BASE: u16 = 23_672;
const PORTS: u16 = 5;

pub(crate) struct OwnBroker {
    pub(crate) urls: BrokerUrls,
    port: u16,
    folder: tempfile::TempDir,
}

impl OwnBroker {
    /// With the additional settings that `settings` makes for a folder, which the broker can read, and a free port.
    pub(crate) fn start(settings: impl FnOnce(&Path, u16) -> String) -> Self {
        let port = free_ports();
        let folder = tempfile::tempdir().expect("a folder");
        let dev = folder.path().join("dev");
        std::fs::create_dir(&dev).expect("a folder");
        // All but the data, which is hidden.
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("dev");
        let scripts = std::fs::read_dir(own).expect("scripts").map(|entry| entry.expect("a script"));
        let scripts = scripts.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let copied = Command::new("cp").arg("-r").args(scripts.map(|entry| entry.path())).arg(&dev).status();
        assert!(copied.expect("cp is there").success(), "copied");
        // The broker runs as a user of its own.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("opened");
        let conf = dev.join("service/rabbitmq.conf");
        let common = std::fs::read_to_string(&conf).expect("settings");
        std::fs::write(&conf, common + &settings(folder.path(), port + PORTS - 1)).expect("written");

        let urls = BrokerUrls {
            amqp: format!("amqp://guest:guest@127.0.0.1:{port}/%2f"),
            management: format!("http://guest:guest@127.0.0.1:{}", port + 1),
        };
        let broker = Self { urls, port, folder };
        assert!(broker.services(&["up", "rabbitmq"]), "RabbitMQ comes up with these settings");
        broker
    }

    /// The address of what listens for TLS at the free port.
    pub(crate) fn tls_url(&self) -> Url {
        let mut url: Url = self.urls.amqp.replacen("amqp://", "amqps://", 1).parse().expect("an address");
        url.set_port(Some(self.port + PORTS - 1)).expect("a port");
        url
    }

    fn services(&self, arguments: &[&str]) -> bool {
        let mut services = Command::new(self.folder.path().join("dev/services"));
        services.args(arguments).env("DLO_DEV_PORT_OFFSET", (self.port - BASE).to_string()).stdout(Stdio::null());
        services.status().is_ok_and(|status| status.success())
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        // A test that has failed already is not to fail over its cleaning.
        self.services(&["down", "rabbitmq", "--wipe"]);
    }
}

/// The first of a run of ports that nobody has: above those of the scripts' own services, below the ones that clients get.
fn free_ports() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut candidates = std::iter::repeat_with(|| fastrand::u16(28_000..32_000) / 10 * 10);
    let free = candidates.by_ref().take(1_000).find(|port| (*port..port + PORTS).all(|port| is_free(&port)));
    free.expect("free ports")
}
