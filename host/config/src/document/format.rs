//! Parses YAML, JSON and TOML by the extension of the file name.

use std::path::Path;

use serde_json::Value;

use crate::{Error, Result};

/// Parses `text` as the contents of the file at `path`, whose extension selects the format.
///
/// # Errors
/// [`Error::Format`] if the text is not valid in that format.
pub fn parse(path: &Path, text: &str) -> Result<Value> {
    let format = |reason: String| Error::Format { path: path.to_owned(), reason };
    let value = match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| format(error.to_string()))?,
        Some("json") => serde_json::from_str(text).map_err(|error| format(error.to_string()))?,
        Some("yaml" | "yml") => {
            serde_norway::from_str(text).map_err(|error| format(error.to_string()))?
        }
        _ => return Err(format("the name must end in .yaml, .yml, .json or .toml".to_owned())),
    };
    Ok(value)
}
