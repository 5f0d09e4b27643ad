//! Policies from files: YAML, JSON or TOML, told apart by their ending.

use std::path::Path;

use serde_json::Value;

use crate::{Error, Result};

/// The policy in a file, as the JSON that the guard compiles.
///
/// # Errors
/// [`Error::File`], [`Error::Format`] with line and column where the format knows them.
pub fn read(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::File { path: path.to_owned(), source })?;
    let value = parse(path, &text)?;
    // An empty file is an empty policy.
    Ok(if value.is_null() { String::new() } else { value.to_string() })
}

/// The document in a text that stands, or would stand, in this file.
///
/// # Errors
/// [`Error::Format`].
pub(crate) fn parse(path: &Path, text: &str) -> Result<Value> {
    let format = |reason: String| Error::Format { path: path.to_owned(), reason };
    let value = match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| format(error.to_string()))?,
        Some("json") => serde_json::from_str(text).map_err(|error| format(error.to_string()))?,
        Some("yaml" | "yml") => {
            serde_norway::from_str(text).map_err(|error| format(error.to_string()))?
        }
        _ => return Err(format("its name has to end in .yaml, .yml, .json or .toml".to_owned())),
    };
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            read(&path)
        };
        let json = r#"{"hardCap":9000}"#;
        assert_eq!(read("p.json", json).unwrap(), json);
        assert_eq!(read("p.yaml", "hardCap: 9000\n").unwrap(), json);
        assert_eq!(read("p.toml", "hardCap = 9000\n").unwrap(), json);
        assert_eq!(read("empty.yaml", "").unwrap(), "");
        assert!(read("p.yaml", "a: [1\n").unwrap_err().to_string().contains("line"));
        assert!(read("p.txt", json).unwrap_err().to_string().contains(".yaml"));
    }
}
