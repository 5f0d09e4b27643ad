//! The certificates of a TLS listener and of its clients. The files are read again when they
//! change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use tracing::{info, warn};

use crate::Result;
use crate::access::ClientName;
use crate::config::Tls;
use crate::pem_files::{self, ChangeTimes, POLL_INTERVAL, change_times, invalid};

/// The TLS settings of new connections. Open connections keep theirs.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<RwLock<Arc<ServerConfig>>>);

impl Acceptor {
    /// Returns the acceptor with the current TLS settings, for the next connection.
    pub(crate) fn current(&self) -> TlsAcceptor {
        let config = self.0.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }
}

/// Returns the name in the verified certificate of a client. `None` without a certificate.
pub(super) fn client_name(connection: &ServerConnection) -> Option<ClientName> {
    ClientName::of_certificate(connection.peer_certificates()?.first()?)
}

/// The certificates and the key of a TLS listener.
pub(crate) struct Certificates {
    files: Tls,
    loaded: ChangeTimes,
    acceptor: Acceptor,
}

impl Certificates {
    /// Loads the files of a listener. Relative paths refer to `folder`.
    ///
    /// # Errors
    /// A file cannot be read or is invalid, or the key does not belong to the certificate.
    pub(crate) fn load(tls: &Tls, folder: &Path) -> Result<Self> {
        let join = |path: &PathBuf| folder.join(path);
        let files = Tls {
            cert: join(&tls.cert),
            key: join(&tls.key),
            client_ca: tls.client_ca.as_ref().map(join),
            client_crl: tls.client_crl.as_ref().map(join),
        };
        // A file that changes while it is read has another time at the next check.
        let loaded = change_times(paths(&files));
        let config = read(&files)?;
        Ok(Self { files, loaded, acceptor: Acceptor(Arc::new(RwLock::new(config))) })
    }

    /// Returns the acceptor of connections, which always uses the last valid files.
    pub(crate) fn acceptor(&self) -> Acceptor {
        self.acceptor.clone()
    }

    /// Reads the files again when they change. Runs until its task is dropped.
    pub(crate) async fn watch(mut self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.reload();
        }
    }

    /// Reads the files if they have changed. If they are invalid, for example because only one of
    /// them was replaced, the earlier settings remain in use.
    fn reload(&mut self) {
        let found = change_times(paths(&self.files));
        if found == self.loaded {
            return;
        }
        self.loaded = found;
        match read(&self.files) {
            Ok(config) => {
                let current = &self.acceptor.0;
                *current.write().unwrap_or_else(PoisonError::into_inner) = config;
                info!("new connections use the changed files of `tls`");
            }
            Err(error) => warn!("the last certificates remain in use: {error}"),
        }
    }
}

fn paths(files: &Tls) -> impl Iterator<Item = &PathBuf> {
    [&files.cert, &files.key].into_iter().chain(&files.client_ca).chain(&files.client_crl)
}

/// Reads all files of a listener.
fn read(files: &Tls) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder();
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let authorities = Arc::new(pem_files::authorities(path)?);
            let provider = Arc::clone(builder.crypto_provider());
            let mut verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
            if let Some(lists) = &files.client_crl {
                let lists = pem_files::revocation_lists(lists)?;
                // An old list does not have the certificates that were revoked since.
                verifier = verifier.with_crls(lists).enforce_revocation_expiration();
            }
            let at_fault = files.client_crl.as_ref().unwrap_or(path);
            let verifier = verifier.build().map_err(|error| invalid(at_fault, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = pem_files::certificates(&files.cert)?;
    let key = pem_files::private_key(&files.key)?;
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| invalid(&files.cert, error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if files.client_ca.is_some() {
        // A resumed session does not verify the certificate, which may have expired or been
        // revoked meanwhile.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}
