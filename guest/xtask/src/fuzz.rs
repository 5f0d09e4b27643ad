//! placeholder
pub(crate) fn run(_seconds: u32) -> anyhow::Result<()> {
    Ok(())
}
