//! TLS, in front of a real broker.

use std::sync::Arc;

use dead_letter_office::amqp::raw::{ConnectOptions, RawConnection, RawError, TlsIdentity, TlsOptions};
use dead_letter_office::amqp::uri::BrokerAddress;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::broker::{Broker, WITHIN};

/// Takes TLS off what comes and passes it to the broker. Demands the client's certificate.
async fn in_front_of(broker: &Broker, server: &CertifiedKey<KeyPair>, client: &CertifiedKey<KeyPair>) -> BrokerAddress {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(client.cert.der().clone()).expect("a certificate");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.expect("a verifier"))
        .with_single_cert(
            vec![server.cert.der().clone()],
            PrivateKeyDer::try_from(server.signing_key.serialize_der()).expect("a key"),
        )
        .expect("a config");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let mut address = broker.address();
    let behind = (address.host.clone(), address.port);
    address.tls = true;
    address.port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let mut inside = TcpStream::connect(behind).await.expect("connects");
                if let Ok(mut outside) = acceptor.accept(stream).await {
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                }
            });
        }
    });
    address
}

pub(super) async fn certificates(broker: &Broker) {
    let named = |name: &str| generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let (server, client, other) = (named("rabbit.test"), named("dlo.test"), named("rabbit.test"));
    let address = in_front_of(broker, &server, &client).await;
    let identity = |key: &CertifiedKey<KeyPair>| TlsIdentity {
        certificates_pem: key.cert.pem().into_bytes(),
        key_pem: key.signing_key.serialize_pem().into_bytes(),
    };
    let good = TlsOptions {
        ca_pem: Some(server.cert.pem().into_bytes()),
        identity: Some(identity(&client)),
        server_name: Some("rabbit.test".into()),
    };
    let connect = async |tls: TlsOptions| {
        let options = ConnectOptions { connection_name: "dlo it tls".into(), tls };
        RawConnection::connect(&address, &options, WITHIN).await
    };
    let queue = broker.queue("q").await;
    let connected = connect(good.clone()).await.expect("connects");
    let channel = connected.open_channel(WITHIN).await.expect("a channel");
    assert_eq!(channel.message_count(&queue, WITHIN).await.expect("counts"), 0);
    connected.close(WITHIN).await.expect("closes");

    let other_ca = TlsOptions { ca_pem: Some(other.cert.pem().into_bytes()), ..good.clone() };
    assert!(matches!(connect(other_ca).await, Err(RawError::Lost(_))), "another authority");
    let machine_ca = TlsOptions { ca_pem: None, ..good.clone() };
    assert!(connect(machine_ca).await.is_err(), "an authority this machine does not know");
    let other_name = TlsOptions { server_name: None, ..good.clone() };
    assert!(matches!(connect(other_name).await, Err(RawError::Lost(_))), "another name");
    // TLS 1.3 refuses a client after the client has begun to talk.
    let no_identity = TlsOptions { identity: None, ..good.clone() };
    let refused = connect(no_identity).await;
    assert!(matches!(refused, Err(RawError::Lost(_) | RawError::HungUp(_))), "{refused:?}");
    let no_pem = TlsOptions { ca_pem: Some(b"nonsense".to_vec()), ..good };
    assert!(matches!(connect(no_pem).await, Err(RawError::TlsSettings(_))));
}
