//! Verifies a component by a checksum or a signature in a separate file next to it.

use std::path::{Path, PathBuf};

use minisign_verify::{PublicKey, Signature};

use context_guard_config::Requirement;

use crate::{Error, Result, config, digest};

/// The proof of authenticity that a component file must have.
#[derive(Clone, Debug, Default)]
pub enum VerificationPolicy {
    /// No proof is required.
    #[default]
    Any,
    /// The file `FILE.sha256` must contain the SHA-256 digest of the component `FILE`, as
    /// `sha256sum` writes it.
    Checksum,
    /// The file `FILE.minisig` must contain a signature of the component `FILE` by one of these
    /// minisign public keys. It must sign a hash of the file: the legacy format is refused.
    Signed(Vec<PublicKey>),
}

impl VerificationPolicy {
    /// Returns the verification policy in the configuration of the component.
    ///
    /// # Errors
    /// [`Error::Refused`] if a public key is invalid.
    pub fn configured(component: &config::Component) -> Result<Self> {
        match component.require {
            Requirement::Nothing => Ok(Self::Any),
            Requirement::Checksum => Ok(Self::Checksum),
            Requirement::Signature => Self::signed(&component.public_keys),
        }
    }

    /// Returns a verification policy that requires a signature by one of these minisign public
    /// keys, in base64.
    ///
    /// # Errors
    /// [`Error::Refused`] if a key is invalid.
    pub fn signed(keys: &[String]) -> Result<Self> {
        let keys = keys.iter().map(|key| {
            PublicKey::from_base64(key.trim()).map_err(|error| {
                Error::Refused(format!("invalid minisign public key {key:?}: {error}"))
            })
        });
        Ok(Self::Signed(keys.collect::<Result<_>>()?))
    }

    /// Returns the path of the checksum or signature file of a component file. `None` if no proof
    /// is required.
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

    /// Verifies the bytes of a component against `proof`, the contents of its checksum or signature
    /// file.
    ///
    /// # Errors
    /// [`Error::Refused`] if the proof does not match.
    pub fn verify(&self, bytes: &[u8], proof: &str) -> Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Checksum => {
                let wanted = proof.split_whitespace().next().unwrap_or_default();
                let is = digest(bytes);
                if wanted.eq_ignore_ascii_case(&is) {
                    return Ok(());
                }
                Err(Error::Refused(format!(
                    "the component's SHA-256 is {is}, but its checksum file says {wanted:?}"
                )))
            }
            Self::Signed(keys) => {
                let signature = Signature::decode(proof).map_err(|error| {
                    Error::Refused(format!("invalid signature of the component: {error}"))
                })?;
                if keys.iter().any(|key| key.verify(bytes, &signature, false).is_ok()) {
                    return Ok(());
                }
                Err(Error::Refused(
                    "the component's signature does not match its bytes or any key in component.publicKeys".to_owned(),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_must_match() {
        let sum = format!("{}  guard.wasm\n", digest(b"component"));
        assert!(VerificationPolicy::Checksum.verify(b"component", &sum).is_ok());
        let refused =
            VerificationPolicy::Checksum.verify(b"Component", &sum).unwrap_err().to_string();
        assert!(refused.contains("SHA-256"), "{refused}");
        assert!(VerificationPolicy::Checksum.verify(b"component", "").is_err());
    }

    #[test]
    fn signature_must_match() {
        // Created with the minisign program; the end-to-end test creates new ones.
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
