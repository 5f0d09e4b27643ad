//! The bytes of a component: compressed in the program itself, or shared.

use std::borrow::Cow;
use std::io::Read as _;
use std::sync::Arc;

use crate::{Error, Result};

/// A component that the program contains, compressed with LZMA. It is decompressed only to compile
/// it: the cache of compiled components has it by its digest.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedComponent {
    compressed: &'static [u8],
    digest: &'static str,
}

impl EmbeddedComponent {
    /// Takes the component in an LZMA file, and the SHA-256 digest of the decompressed component in
    /// hex, as [`digest`](crate::digest()) returns it.
    #[must_use]
    pub const fn new(compressed: &'static [u8], digest: &'static str) -> Self {
        Self { compressed, digest }
    }

    /// Returns the digest of the component.
    #[must_use]
    pub const fn digest(&self) -> &'static str {
        self.digest
    }

    /// Decompresses the component.
    ///
    /// # Errors
    /// [`Error::Load`] if the bytes are not an LZMA file.
    pub fn decompress(&self) -> Result<Vec<u8>> {
        let failed = |error| Error::Load(format!("cannot decompress it: {error}"));
        let mut component = Vec::new();
        lzma_rust2::LzmaReader::new_mem_limit(self.compressed, u32::MAX, None)
            .and_then(|mut reader| reader.read_to_end(&mut component))
            .map_err(failed)?;
        Ok(component)
    }
}

/// The bytes of a component. Clones share them.
#[derive(Clone, Debug)]
pub(crate) enum ComponentBytes {
    /// Bytes that the program contains.
    Embedded(EmbeddedComponent),
    /// Bytes that were read.
    Shared(Arc<[u8]>),
}

impl ComponentBytes {
    /// Returns the component. Decompresses it if necessary.
    pub(crate) fn read(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Embedded(component) => component.decompress().map(Cow::Owned),
            Self::Shared(bytes) => Ok(Cow::Borrowed(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;

    #[test]
    fn component_is_decompressed() {
        // Made with `xz --format=lzma`.
        const EMPTY_MODULE: &[u8] = include_bytes!("component_bytes/empty_module.lzma");
        let component = EmbeddedComponent::new(EMPTY_MODULE, "");
        assert_eq!(component.decompress().unwrap(), b"\0asm\x01\0\0\0");
        assert_eq!(digest(&component.decompress().unwrap()).len(), 64);
    }

    #[test]
    fn damaged_component_is_refused() {
        let component = EmbeddedComponent::new(b"no LZMA file", "");
        assert!(matches!(component.decompress(), Err(Error::Load(_))));
    }
}
