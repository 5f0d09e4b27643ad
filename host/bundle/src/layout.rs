//! Bundles in an OCI image layout, a folder that tools for container registries can read and write.

use std::path::Path;

use serde_json::{Value, json};

use crate::{Error, MAX_BUNDLE_BYTES, Result, digest, with_path};

/// The media type of a bundle.
const BUNDLE_TYPE: &str = "application/vnd.context-guard.bundle.v1";
/// The media type of an OCI image manifest.
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The empty configuration of an artifact, which the OCI image specification defines.
const EMPTY: &[u8] = b"{}";
/// The media type of the empty configuration.
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";

fn invalid(folder: &Path, reason: &str) -> Error {
    Error::Invalid(format!("{} is not an OCI layout with a bundle: {reason}", folder.display()))
}

/// Reads a file of at most [`MAX_BUNDLE_BYTES`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(with_path(path))?;
    let mut bytes = Vec::new();
    file.take(MAX_BUNDLE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(with_path(path))?;
    if bytes.len() > MAX_BUNDLE_BYTES {
        return Err(Error::Invalid(format!(
            "{} has more than {MAX_BUNDLE_BYTES} bytes",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Reads the blob of a descriptor, and verifies its digest.
fn blob(folder: &Path, descriptor: &Value) -> Result<Vec<u8>> {
    let named = descriptor.get("digest").and_then(Value::as_str).unwrap_or_default();
    let hex = named.strip_prefix("sha256:").filter(|hex| {
        // The digest becomes a file name.
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let hex = hex.ok_or_else(|| invalid(folder, "a descriptor has no SHA-256 digest"))?;
    let bytes = read_file(&folder.join("blobs/sha256").join(hex))?;
    if digest(&bytes) != hex.to_ascii_lowercase() {
        return Err(invalid(folder, &format!("the blob {hex} has another digest")));
    }
    Ok(bytes)
}

fn parse(folder: &Path, bytes: &[u8], name: &str) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| invalid(folder, &format!("{name}: {error}")))
}

/// Returns the bytes of the bundle in an OCI layout. That is the bundle layer of the last manifest
/// in the index that has one.
///
/// # Errors
/// [`Error::File`], [`Error::Invalid`].
pub fn read_layout(folder: &Path) -> Result<Vec<u8>> {
    let index = parse(folder, &read_file(&folder.join("index.json"))?, "index.json")?;
    let manifests = index.get("manifests").and_then(Value::as_array);
    // Tools append the newest manifest.
    for descriptor in manifests.into_iter().flatten().rev() {
        let manifest = parse(folder, &blob(folder, descriptor)?, "a manifest")?;
        let layers = manifest.get("layers").and_then(Value::as_array);
        let mut layers = layers.into_iter().flatten();
        if let Some(layer) =
            layers.find(|layer| layer.get("mediaType") == Some(&BUNDLE_TYPE.into()))
        {
            return blob(folder, layer);
        }
    }
    Err(invalid(folder, &format!("no layer has the media type {BUNDLE_TYPE}")))
}

/// Writes a bundle into an OCI layout, which is created if it is missing. Afterwards the index
/// contains only this bundle.
///
/// # Errors
/// [`Error::File`].
pub fn write_layout(folder: &Path, bundle: &[u8], number: u64) -> Result<()> {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).map_err(with_path(&blobs))?;
    let store = |bytes: &[u8], kind: &str| -> Result<Value> {
        let hex = digest(bytes);
        write(&blobs.join(&hex), bytes)?;
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{hex}"), "size": bytes.len()}))
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": BUNDLE_TYPE,
        "config": store(EMPTY, EMPTY_TYPE)?,
        "layers": [store(bundle, BUNDLE_TYPE)?],
        "annotations": {"dev.context-guard.bundle.number": number.to_string()},
    });
    let descriptor = store(manifest.to_string().as_bytes(), MANIFEST_TYPE)?;
    write(&folder.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    // The index comes last, and at once: a gateway never reads a part of a bundle.
    let index = json!({"schemaVersion": 2, "manifests": [descriptor]});
    write(&folder.join("index.json"), index.to_string().as_bytes())
}

/// Replaces a file atomically.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).map_err(with_path(&new))?;
    std::fs::rename(&new, path).map_err(with_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_has_the_last_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layout");
        write_layout(&path, b"one", 1).unwrap();
        write_layout(&path, b"two", 2).unwrap();
        assert_eq!(read_layout(&path).unwrap(), b"two");
        let blob = path.join("blobs/sha256").join(digest(b"two"));
        std::fs::write(blob, b"three").unwrap();
        let fault = read_layout(&path).unwrap_err().to_string();
        assert!(fault.contains("another digest"), "{fault}");
    }

    #[test]
    fn digest_is_no_path() {
        let folder = tempfile::tempdir().unwrap();
        let index = r#"{"manifests": [{"digest": "sha256:../../../../etc/passwd"}]}"#;
        std::fs::write(folder.path().join("index.json"), index).unwrap();
        assert!(matches!(read_layout(folder.path()), Err(Error::Invalid(_))));
    }
}
