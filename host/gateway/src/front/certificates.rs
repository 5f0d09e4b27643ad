//! The certificate and key of a TLS listener, which are read again when their files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::{info, warn};

use crate::Result;
use crate::config::{self, Tls};

/// The pause between two checks of the files.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The current certificate, for new connections. Open connections keep theirs.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The times of the last changes of certificate and key.
type ChangeTimes = [Option<SystemTime>; 2];

/// The certificate and key of a TLS listener.
pub(crate) struct Certificates {
    cert: PathBuf,
    key: PathBuf,
    loaded: ChangeTimes,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

impl Certificates {
    /// Loads the certificate and key of a listener. Relative paths refer to `folder`.
    ///
    /// # Errors
    /// A file cannot be read, or the key is not that of the certificate.
    pub(crate) fn load(tls: &Tls, folder: &Path) -> Result<Self> {
        let (cert, key) = (folder.join(&tls.cert), folder.join(&tls.key));
        let loaded = change_times(&cert, &key);
        let builder = ServerConfig::builder();
        let certified = read(&cert, &key, builder.crypto_provider())?;
        let current = Arc::new(Current(RwLock::new(Arc::new(certified))));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&current);
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { cert, key, loaded, current, config: Arc::new(config) })
    }

    /// Returns the acceptor of connections, which uses the current certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Reads the files again whenever they change. Runs until its task is dropped.
    pub(crate) async fn watch(mut self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.reload();
        }
    }

    /// Reads the files if they have changed. While they are invalid, for example because only one
    /// of them has been replaced, the last certificate remains in use.
    fn reload(&mut self) {
        let found = change_times(&self.cert, &self.key);
        if found == self.loaded {
            return;
        }
        // A file that changes while it is read has another time at the next check.
        self.loaded = found;
        match read(&self.cert, &self.key, self.config.crypto_provider()) {
            Ok(certified) => {
                let mut current = self.current.0.write().unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(certified);
                info!("new connections use the changed certificate {}", self.cert.display());
            }
            Err(error) => warn!("the last certificate remains in use: {error}"),
        }
    }
}

fn change_times(cert: &Path, key: &Path) -> ChangeTimes {
    [cert, key].map(|path| std::fs::metadata(path).and_then(|found| found.modified()).ok())
}

fn read(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let fault =
        |path: &Path, reason: String| config::Error::Format { path: path.to_owned(), reason };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| fault(cert, format!("invalid PEM certificate: {error}")))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| fault(key, format!("invalid PEM private key: {error}")))?;
    let certified = CertifiedKey::from_der(chain, private, provider);
    Ok(certified.map_err(|error| fault(cert, error.to_string()))?)
}
