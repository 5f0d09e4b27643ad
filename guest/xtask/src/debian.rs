//! Programs of Debian packages, unpacked into the target folder. They are not installed, because
//! the system would start their services.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, step};

/// Unpacks the Debian package `name` into the folder of this name below `folder`, unless it is
/// there.
pub(crate) fn unpack(folder: &Path, name: &str) -> Result<()> {
    let target = folder.join(name);
    if target.join("usr/bin").is_dir() {
        return Ok(());
    }
    step!("Unpacking the Debian package {name} into {}.", target.display());
    let temporary = folder.join(format!("{name}.new"));
    let _ = std::fs::remove_dir_all(&temporary);
    std::fs::create_dir_all(&temporary)?;
    let download =
        || build::run(Command::new("apt-get").current_dir(&temporary).args(["download", name]));
    // The list of packages may be missing or old.
    download()
        .or_else(|_| {
            build::run(Command::new("apt-get").arg("update"))?;
            download()
        })
        .with_context(|| {
            format!("{name} cannot be downloaded: unpack it to {}", target.display())
        })?;
    for entry in std::fs::read_dir(&temporary)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            build::run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&temporary))?;
        }
    }
    std::fs::rename(&temporary, &target)?;
    Ok(())
}
