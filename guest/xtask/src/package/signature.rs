//! Signatures of the checksums, by the program minisign.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::build;
use super::table::VERSION;

/// Signs a file. The signature is FILE.minisig.
pub(crate) fn sign(file: &Path, key: &Path) -> Result<()> {
    let comment = format!("context-guard {VERSION}");
    build::run(
        Command::new("minisign")
            .arg("-S")
            .arg("-s")
            .arg(key)
            .arg("-m")
            .arg(file)
            .args(["-t", &comment]),
    )
    .context("install minisign, and check the key")
}

/// Creates a pair of keys in `folder` and signs a copy of `file`. Fails if the signature is not
/// accepted, or is accepted for another text.
pub(crate) fn verify(file: &Path, folder: &Path) -> Result<()> {
    let (public, secret) = (folder.join("minisign.pub"), folder.join("minisign.key"));
    build::run(
        Command::new("minisign").arg("-G").arg("-W").arg("-p").arg(&public).arg("-s").arg(&secret),
    )?;
    let copy = folder.join("SHA256SUMS");
    std::fs::copy(file, &copy)?;
    sign(&copy, &secret)?;
    let accepts = |file: &PathBuf| -> Result<bool> {
        let mut command = Command::new("minisign");
        command.arg("-V").arg("-q").arg("-p").arg(&public).arg("-m").arg(file);
        Ok(command.output()?.status.success())
    };
    if !accepts(&copy)? {
        bail!("the signature of {} is not accepted", copy.display());
    }
    let mut bytes = std::fs::read(&copy)?;
    bytes.push(b'\n');
    std::fs::write(&copy, bytes)?;
    if accepts(&copy)? {
        bail!("the signature of {} is accepted for another text", copy.display());
    }
    Ok(())
}
