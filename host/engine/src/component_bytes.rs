//! The bytes of a component: embedded in compressed form, or shared.

use std::borrow::Cow;
use std::io::Read as _;
use std::sync::Arc;

use crate::{Error, Result};

/// A component that is embedded in the program, compressed with LZMA. It is decompressed only for
/// compilation, because the cache of compiled components finds it by its digest.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedComponent {
    compressed: &'static [u8],
    digest: &'static str,
}

impl EmbeddedComponent {
    /// Returns the component in an LZMA file. `digest` is the SHA-256 digest of the decompressed
    /// component in hexadecimal, in the form of [`digest`](crate::digest()).
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

/// The bytes of a component. Clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) enum ComponentBytes {
    /// A component that is embedded in the program.
    Embedded(EmbeddedComponent),
    /// Bytes in memory.
    Shared(Arc<[u8]>),
}

impl ComponentBytes {
    /// Returns the bytes. Decompresses an embedded component.
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
