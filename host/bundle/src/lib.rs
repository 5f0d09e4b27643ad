//! Bundles: the policy, the component and the signing keys of a fleet in one signed file with a
//! number that only grows.
//!
//! ```
//! use context_guard_bundle::{Bundle, Contents, SecretKey, public_keys};
//!
//! let (key, _) = SecretKey::generate()?;
//! let contents = Contents::new(Some(Default::default()), None);
//! let bytes = Bundle::new(7, contents)?.sign(&key)?;
//! let bundle = Bundle::open(&bytes, &public_keys(&[key.public_text()])?)?;
//! assert_eq!(bundle.number, 7);
//! # Ok::<(), context_guard_bundle::Error>(())
//! ```
#![forbid(unsafe_code)]

mod accepted;
mod bundle;
mod layout;
mod secret_key;
mod signed_keys;
mod source;

use std::path::PathBuf;

use thiserror::Error;

pub use accepted::AcceptedNumber;
pub use bundle::{Bundle, Contents, public_keys};
pub use layout::{read_layout, write_layout};
pub use secret_key::SecretKey;
pub use source::{BundleSource, Place};

/// The maximum size of a bundle, in bytes.
pub const MAX_BUNDLE_BYTES: usize = 96 << 20;

/// The result of an operation on bundles.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a bundle cannot be created, read or used.
#[derive(Debug, Error)]
pub enum Error {
    /// The bundle is not authentic, or older than one that was accepted. Contains the message.
    #[error("{0}")]
    Refused(String),
    /// The bundle or a key has an invalid format. Contains the message.
    #[error("{0}")]
    Invalid(String),
    /// The bundle cannot be read from its source. Contains the message.
    #[error("{0}")]
    Unreachable(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Returns a function that adds a path to an error of the operating system.
fn with_path(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::File { path, source }
}

/// Returns the SHA-256 digest of bytes, in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    context_guard_sealing::to_hex(&Sha256::digest(bytes))
}
