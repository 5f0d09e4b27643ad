//! The signing keys in a bundle, encrypted for the gateways.

use context_guard_sealing::{KeyMaterial, NONCE_BYTES, Nonce};
use serde_json::Value;

use crate::{Error, Result};

/// The context of the key derivation, so that keys for other purposes differ.
const PURPOSE: &[u8] = b"context-guard bundle keys 1";
/// The context that is authenticated with the encrypted keys.
const CONTEXT: &[u8] = b"signing keys";

/// Encrypts signing keys with a secret that the gateways share.
pub(crate) fn seal(keys: &[String], secret: &[u8]) -> Result<Vec<u8>> {
    let fault = |_| Error::Invalid("the signing keys cannot be encrypted".to_owned());
    let key = KeyMaterial::new(PURPOSE, secret).key(b"").map_err(fault)?;
    let mut sealed = Value::from(keys).to_string().into_bytes();
    let nonce = key.seal(CONTEXT, &mut sealed).map_err(fault)?;
    sealed.extend(nonce);
    Ok(sealed)
}

/// Decrypts signing keys.
///
/// # Errors
/// The secret is another one, or `sealed` was changed.
pub(crate) fn open(sealed: &[u8], secret: &[u8]) -> Result<Vec<String>> {
    let refused = || {
        Error::Refused(
            "its signing keys are encrypted with another secret than bundle.secret".to_owned(),
        )
    };
    let (sealed, nonce) = sealed.split_last_chunk::<NONCE_BYTES>().ok_or_else(refused)?;
    let nonce: &Nonce = nonce;
    let key = KeyMaterial::new(PURPOSE, secret).key(b"").map_err(|_| refused())?;
    let opened = key.open(CONTEXT, nonce, sealed).ok_or_else(refused)?;
    serde_json::from_slice(&opened).map_err(|_| refused())
}
