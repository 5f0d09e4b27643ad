//! Payloads: texts of tool results, one file each.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The text of a tool result.
pub(crate) struct Payload {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The text, if it is a JSON object or list.
    pub(crate) json: Option<Value>,
    /// HTML or text with the words that a reader needs.
    pub(crate) expected: Option<String>,
}

impl Payload {
    /// Reads all files in a folder and below it in the order of their names.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Self>> {
        let mut folders = vec![folder.to_owned()];
        let mut payloads = Vec::new();
        while let Some(folder) = folders.pop() {
            let entries =
                std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                if path.extension().is_some_and(|ending| ending == "expected") {
                    continue;
                }
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("{} is no text", path.display()))?;
                let json = serde_json::from_str(&text)
                    .ok()
                    .filter(|json: &Value| json.is_object() || json.is_array());
                let name = path.display().to_string();
                let expected = std::fs::read_to_string(format!("{name}.expected")).ok();
                payloads.push(Self { name, text, json, expected });
            }
        }
        ensure!(!payloads.is_empty(), "{} has no payloads", folder.display());
        payloads.sort_by(|first, second| first.name.cmp(&second.name));
        Ok(payloads)
    }
}
