//! The bytes of a component: of the program itself, or shared.

use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a component. Clones share them.
#[derive(Clone, Debug)]
pub(crate) enum ComponentBytes {
    /// Bytes that the program contains. They occupy memory only while they are read.
    Static(&'static [u8]),
    /// Bytes that were read.
    Shared(Arc<[u8]>),
}

impl Deref for ComponentBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for ComponentBytes {
    fn from(bytes: &[u8]) -> Self {
        Self::Shared(bytes.into())
    }
}
