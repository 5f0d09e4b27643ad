//! The byte format of stored values: a tag of type and version, then postcard. Also the formats of
//! cursors.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format in which cursors are written. Both are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CursorFormat {
    /// About 28 characters, 20 tokens.
    #[default]
    Short,
    /// About 115 characters, 77 tokens: a payload in JSON and a whole HMAC-SHA256.
    Signed,
}

/// A value that can be stored as bytes.
pub trait Stored: Serialize + DeserializeOwned {
    /// The first four bytes of stored values, which identify their type and version. They must
    /// change whenever stored bytes would be read differently.
    const FORMAT: &'static [u8; 4];

    /// Returns the value in its storage format.
    #[must_use]
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Self::FORMAT.to_vec();
        bytes.extend(postcard::to_allocvec(self).unwrap_or_default());
        bytes
    }

    /// Parses a value in its storage format. Returns `None` if the bytes have another type or
    /// version, or are invalid.
    #[must_use]
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes.strip_prefix(Self::FORMAT)?).ok()
    }
}
