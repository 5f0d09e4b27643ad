//! placeholder
pub(crate) fn write() -> anyhow::Result<()> { Ok(()) }
