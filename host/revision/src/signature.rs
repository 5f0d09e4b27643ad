//! Whose component it is: a checksum or a signature beside the file, where the configuration asks for one.

use std::path::{Path, PathBuf};

use minisign_verify::{PublicKey, Signature};

use context_guard_config::Requirement;

use crate::{Error, Result, config, digest};

/// What a component needs before it is taken.
#[derive(Clone, Debug, Default)]
pub enum VerificationPolicy {
    /// Nothing.
    #[default]
    Any,
    /// Its SHA-256 in `FILE.sha256`, as `sha256sum` writes it.
    Checksum,
    /// A signature of one of these minisign keys in `FILE.minisig`.
    Signed(Vec<PublicKey>),
}

impl VerificationPolicy {
    /// VerificationPolicy as a configuration asks for it.
    ///
    /// # Errors
    /// [`Error::Refused`] with a public key that is none.
    pub fn configured(component: &config::Component) -> Result<Self> {
        match component.require {
            Requirement::Nothing => Ok(Self::Any),
            Requirement::Checksum => Ok(Self::Checksum),
            Requirement::Signature => Self::signed(&component.public_keys),
        }
    }

    /// VerificationPolicy in these minisign public keys, the base64 line of each.
    ///
    /// # Errors
    /// [`Error::Refused`] with the key that is none.
    pub fn signed(keys: &[String]) -> Result<Self> {
        let keys = keys.iter().map(|key| {
            PublicKey::from_base64(key.trim()).map_err(|error| {
                Error::Refused(format!("{key:?} is no minisign public key: {error}"))
            })
        });
        Ok(Self::Signed(keys.collect::<Result<_>>()?))
    }

    /// The file that stands beside a component for this.
    #[must_use]
    pub fn sidecar(&self, component: &Path) -> Option<PathBuf> {
        let ending = match self {
            Self::Any => return None,
            Self::Checksum => ".sha256",
            Self::Signed(_) => ".minisig",
        };
        let mut name = component.as_os_str().to_owned();
        name.push(ending);
        Some(name.into())
    }

    /// Whether bytes are what the file beside them says.
    ///
    /// # Errors
    /// [`Error::Refused`] with what does not fit.
    pub fn verify(&self, bytes: &[u8], beside: &str) -> Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Checksum => {
                let wanted = beside.split_whitespace().next().unwrap_or_default();
                let is = digest(bytes);
                if wanted.eq_ignore_ascii_case(&is) {
                    return Ok(());
                }
                Err(Error::Refused(format!(
                    "the component's SHA-256 is {is}, not {wanted:?} as its checksum file says"
                )))
            }
            Self::Signed(keys) => {
                let signature = Signature::decode(beside).map_err(|error| {
                    Error::Refused(format!("the component's signature cannot be read: {error}"))
                })?;
                if keys.iter().any(|key| key.verify(bytes, &signature, false).is_ok()) {
                    return Ok(());
                }
                Err(Error::Refused(
                    "the component's signature is of none of the keys in component.publicKeys, or of other bytes".to_owned(),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_the_bytes() {
        let sum = format!("{}  guard.wasm\n", digest(b"component"));
        assert!(VerificationPolicy::Checksum.verify(b"component", &sum).is_ok());
        let refused =
            VerificationPolicy::Checksum.verify(b"Component", &sum).unwrap_err().to_string();
        assert!(refused.contains("SHA-256"), "{refused}");
        assert!(VerificationPolicy::Checksum.verify(b"component", "").is_err());
    }

    #[test]
    fn a_signature_is_of_these_bytes_by_one_of_the_keys() {
        // Made by minisign's own program; the test of the suite makes new ones with it.
        let keys = VerificationPolicy::signed(&[
            "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3".to_owned(),
        ])
        .unwrap();
        let signature = "untrusted comment: signature from minisign secret key\nRUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\ntrusted comment: timestamp:1633700835\tfile:test\tprehashed\nwLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n";
        assert!(keys.verify(b"test", signature).is_ok());
        assert!(keys.verify(b"tesT", signature).is_err());
        assert!(keys.verify(b"test", "no signature").is_err());
        assert!(VerificationPolicy::signed(&["no key".to_owned()]).is_err());
    }
}
