//! Components put together.

use std::path::Path;

use anyhow::Result;

pub(crate) fn all(_: &Path, _: &Path) -> Result<()> {
    Ok(())
}
