//! Payloads: real tool results, by class.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::artifacts;
use serde_json::{Value, json};

/// A tool result.
pub(crate) struct Payload {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) message: Vec<u8>,
    /// The texts of the result, concatenated.
    pub(crate) text: String,
    /// The text, if it is JSON.
    pub(crate) json: Option<Value>,
}

impl Payload {
    fn new(name: String, class: &str, message: Vec<u8>) -> Result<Self> {
        let text = Answer::read(&message)?.all_texts().join("\n");
        let json = serde_json::from_str(&text)
            .ok()
            .filter(|json: &Value| json.is_object() || json.is_array());
        Ok(Self { name, class: class.to_owned(), message, text, json })
    }

    /// Returns true if these stored bytes are the text, or a part of the message.
    pub(crate) fn contains(&self, stored: &[u8]) -> bool {
        let escaped = serde_json::to_string(&self.text).unwrap_or_default();
        escaped.trim_matches('"').as_bytes() == stored
            || self.message.windows(stored.len().max(1)).any(|window| window == stored)
    }
}

/// Reads all payloads of a folder, or the captures of the tests.
pub(crate) fn read(corpus: Option<&Path>) -> Result<Vec<Payload>> {
    let mut payloads = Vec::new();
    let captures = corpus.map_or_else(
        || artifacts::root().join("tests/captures"),
        |corpus| corpus.join("mcp-captures"),
    );
    for path in files(&captures)? {
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let message = std::fs::read(&path).with_context(|| path.display().to_string())?;
        // Other captures are lists of tools, errors, and the index.
        let is_result =
            Answer::read(&message).is_ok_and(|answer| answer.result()["content"].is_array());
        if is_result {
            payloads.push(Payload::new(path.display().to_string(), "captured answers", message)?);
        }
    }
    let Some(folder) = corpus.map(|corpus| corpus.join("payloads")) else { return Ok(payloads) };
    for class in files(&folder)? {
        let name =
            class.file_name().map(|name| name.to_string_lossy().into_owned()).context("no name")?;
        for path in files(&class)? {
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| path.display().to_string())?;
            let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
            payloads.push(Payload::new(
                path.display().to_string(),
                &name,
                message.to_string().into_bytes(),
            )?);
        }
    }
    ensure!(!payloads.is_empty(), "{} holds no payloads", folder.display());
    Ok(payloads)
}

fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let files: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files = files?;
    files.sort();
    Ok(files)
}
