//! The stream of bytes to a broker: TCP, with or without TLS.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::RawError;
use crate::amqp::uri::BrokerAddress;

pub(super) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// How to check a broker and show ourselves. The default trusts what this machine trusts.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Certificates in PEM to trust instead of this machine's.
    pub ca_pem: Option<Vec<u8>>,
    pub identity: Option<TlsIdentity>,
    /// The name the broker's certificate must carry, where that is not the host of the address.
    pub server_name: Option<String>,
}

/// A client certificate with its chain, and its key, both in PEM.
#[derive(Clone)]
pub struct TlsIdentity {
    pub certificates_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity(***)")
    }
}

impl TlsOptions {
    /// For every client of ours, so that none trusts what another would not.
    pub(in crate::amqp) fn client_config(&self) -> Result<Arc<ClientConfig>, RawError> {
        let settings = |what: &str, error: &dyn fmt::Display| RawError::TlsSettings(format!("{what}: {error}").into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| settings("protocol versions", &error))?
            .with_root_certificates(roots(self.ca_pem.as_deref())?);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.certificates_pem).map_err(|e| settings("client certificate", &e))?;
                let key = PrivateKeyDer::from_pem_slice(&identity.key_pem).map_err(|e| settings("client key", &e))?;
                builder.with_client_auth_cert(chain, key).map_err(|e| settings("client certificate", &e))?
            }
        };
        Ok(Arc::new(config))
    }
}

pub(super) async fn open(address: &BrokerAddress, tls: &TlsOptions) -> Result<(ReadHalf, WriteHalf), RawError> {
    // Looked at first, so that settings that cannot work are not taken for a broker that is away.
    let secured = if address.tls { Some((tls.client_config()?, server_name(address, tls)?)) } else { None };
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(RawError::lost)?;
    stream.set_nodelay(true).map_err(RawError::lost)?;
    Ok(match secured {
        None => {
            let (read, write) = stream.into_split();
            (Box::new(read), Box::new(write))
        }
        Some((config, name)) => {
            let stream = TlsConnector::from(config).connect(name, stream).await.map_err(RawError::lost)?;
            let (read, write) = tokio::io::split(stream);
            (Box::new(read), Box::new(write))
        }
    })
}

fn server_name(address: &BrokerAddress, tls: &TlsOptions) -> Result<ServerName<'static>, RawError> {
    let name = tls.server_name.as_ref().unwrap_or(&address.host);
    ServerName::try_from(name.clone()).map_err(|error| RawError::TlsSettings(format!("server name: {error}").into()))
}

fn roots(ca_pem: Option<&[u8]>) -> Result<RootCertStore, RawError> {
    let mut roots = RootCertStore::empty();
    match ca_pem {
        Some(pem) => {
            let certificates = certificates(pem).map_err(|e| RawError::TlsSettings(format!("ca: {e}").into()))?;
            for certificate in certificates {
                roots.add(certificate).map_err(|e| RawError::TlsSettings(format!("ca: {e}").into()))?;
            }
        }
        // One certificate that cannot be read must not lock us out of all others.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        return Err(RawError::TlsSettings("no certificate authority to trust".into()));
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, io::Error> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(io::Error::other)
}
