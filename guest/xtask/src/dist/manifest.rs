//! Writes the manifest of the artifacts: sizes and digests. Fails if an artifact exceeds its
//! maximum size.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The release artifacts, each with its maximum size in bytes. Find out why an artifact grew before
/// you raise its limit.
const BUDGETS: [(&str, u64); 14] = [
    ("context-guard.wasm", 7_000_000),
    ("context-guard-code.wasm", 1_300_000),
    ("context-guard-envoy.wasm", 5_990_000),
    ("context-guard-http-p2.wasm", 7_770_000),
    ("context-guard-http-p2-spin.wasm", 7_770_000),
    ("context-guard-http-p2-replay.wasm", 7_770_000),
    ("context-guard-http-p3.wasm", 7_720_000),
    ("context-guard-http-p3-spin.wasm", 7_720_000),
    ("context-guard-http-p3-replay.wasm", 7_720_000),
    ("context-guard-http-p3-proxy.wasm", 7_980_000),
    ("context-guard-http-p3-proxy-spin.wasm", 7_980_000),
    ("context-guard-http-p3-proxy-replay.wasm", 7_980_000),
    ("context-guard-http-forward.wasm", 300_000),
    ("context-guard-0.1.0.tgz", 4_260_000),
];

/// The modules of the npm package, each with its maximum size in bytes. Each page downloads the
/// first before it starts, and the second for its first program of jq.
const MODULES: [(&str, u64); 2] = [
    ("npm/context-guard/context_guard_bg.wasm", 3_600_000),
    ("npm/context-guard/context_guard_jq_bg.wasm", 4_260_000),
];

/// Writes `manifest.json` and `SHA256SUMS` of the artifacts in `folder`, and prints sizes and
/// digests.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let (mut artifacts, mut sums, mut over) = (Vec::new(), String::new(), Vec::new());
    for (name, budget) in BUDGETS {
        let bytes = std::fs::read(folder.join(name))?;
        let digest: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let size = bytes.len() as u64;
        eprintln!("{size:>12} bytes of {budget:>9}  {digest}  {}", folder.join(name).display());
        writeln!(sums, "{digest}  {name}")?;
        if size > budget {
            over.push(format!("{name} has {size} bytes, {} over its budget", size - budget));
        }
        artifacts.push(json!({"name": name, "bytes": size, "budget": budget, "sha256": digest}));
    }
    for (name, budget) in MODULES {
        let size = std::fs::metadata(folder.join(name))?.len();
        eprintln!("{size:>12} bytes of {budget:>9}  {}", folder.join(name).display());
        if size > budget {
            over.push(format!("{name} has {size} bytes, {} over its budget", size - budget));
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let manifest = json!({"version": version, "artifacts": artifacts});
    std::fs::write(folder.join("manifest.json"), format!("{manifest:#}\n"))?;
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    if !over.is_empty() {
        bail!("{}", over.join("; "));
    }
    Ok(())
}
