//! Reads certificates and keys from PEM files, and detects their changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
};

use crate::config;

/// The minimum time between two checks of files for changes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The modification time of each file. `None` for a file that does not exist.
pub(crate) type ChangeTimes = Vec<Option<SystemTime>>;

/// Returns the modification times of files, in the order of `paths`.
pub(crate) fn change_times<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> ChangeTimes {
    let changed = |path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    paths.into_iter().map(changed).collect()
}

/// Returns the error for a file whose contents are invalid.
pub(crate) fn invalid(path: &Path, reason: impl ToString) -> config::Error {
    config::Error::Format { path: path.to_owned(), reason: reason.to_string() }
}

/// Returns all certificates in a file. In a chain, the server's or client's own certificate is
/// first.
pub(crate) fn certificates(path: &Path) -> config::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    not_empty(path, "certificate", read)
}

/// Returns all certificate revocation lists in a file.
pub(crate) fn revocation_lists(
    path: &Path,
) -> config::Result<Vec<CertificateRevocationListDer<'static>>> {
    let read = CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
    not_empty(path, "certificate revocation list", read)
}

/// Rejects a file without objects, which would trust nothing or revoke nothing.
fn not_empty<T>(path: &Path, kind: &str, read: Result<Vec<T>, PemError>) -> config::Result<Vec<T>> {
    match read {
        Ok(objects) if objects.is_empty() => Err(invalid(path, format!("it has no PEM {kind}"))),
        Ok(objects) => Ok(objects),
        Err(error) => Err(invalid(path, format!("invalid PEM {kind}: {error}"))),
    }
}

/// Returns the first private key in a file.
pub(crate) fn private_key(path: &Path) -> config::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| invalid(path, format!("invalid PEM private key: {error}")))
}

/// Returns the certificate authorities in a file.
pub(crate) fn authorities(path: &Path) -> config::Result<RootCertStore> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path)? {
        authorities.add(certificate).map_err(|error| invalid(path, error))?;
    }
    Ok(authorities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_objects_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.pem");
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\n", garbage] {
            std::fs::write(&path, text).unwrap();
            assert!(authorities(&path).is_err(), "{text}");
            assert!(revocation_lists(&path).is_err(), "{text}");
            assert!(private_key(&path).is_err(), "{text}");
        }
        assert!(authorities(&folder.path().join("none")).is_err());
    }
}
