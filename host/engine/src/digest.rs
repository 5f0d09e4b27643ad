//! SHA-256 digests.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 digest of `bytes`, in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
