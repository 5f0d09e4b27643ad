//! Compilation of the component: reuse of compiled code, and the second copy for short messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use context_guard::engine::{Component, Engine, EngineOptions};
use context_guard_test_support::guards::{ComponentGuard, NOW_MS, SIGNING_KEY, TestGuard, Verdict};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Result, artifacts, bail, ensure, peers, walk};
use serde_json::json;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

fn load(folder: &Path, bytes: &[u8]) -> Result<Component> {
    let options = EngineOptions { compiled: Some(folder.to_owned()), ..EngineOptions::default() };
    Ok(Component::load(&Engine::new(options)?, bytes)?)
}

/// Returns a component of the contract whose functions do nothing, which compiles in no time.
fn empty_component() -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(artifacts::root().join("wit"))?;
    let world = resolve.select_world(&[package], Some("context-guard"))?;
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

/// Returns the compiled components in a folder.
fn compiled(folder: &Path) -> Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "cwasm"));
    Ok(paths)
}

fn answer(records: usize) -> Vec<u8> {
    let list: Vec<_> =
        (0..records).map(|id| json!({"id": id, "name": format!("record {id}")})).collect();
    json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {"list": list}}}).to_string().into_bytes()
}

#[test]
fn compiled_code_is_reused() -> Result<()> {
    let home = peers::folder("compiled")?;
    let empty = empty_component()?;
    let load = |folder: &Path| load(folder, &empty);
    let folder = home.join("new");
    load(&folder)?;
    let files = compiled(&folder)?;
    ensure!(files.len() == 1, "{files:?}");
    let written = std::fs::metadata(&files[0])?.modified()?;
    let component = load(&folder)?;
    ensure!(compiled(&folder)? == files, "the component was compiled twice");
    ensure!(std::fs::metadata(&files[0])?.modified()? == written);
    // A file of another version, or a damaged one, is replaced. Mapped files must not
    // change, so that it takes the place of the file.
    let damaged = folder.join("damaged");
    let code = std::fs::read(&files[0])?;
    std::fs::write(&damaged, "no code")?;
    std::fs::rename(damaged, &files[0])?;
    load(&folder)?;
    ensure!(compiled(&folder)? == files && std::fs::read(&files[0])? == code);
    ensure!(!component.imports().is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&folder)?.permissions().mode();
        ensure!(mode & 0o077 == 0, "others can write to the code folder: {mode:o}");
        // Ignore a folder that others can write to: they could place code there.
        let shared = home.join("shared");
        std::fs::create_dir(&shared)?;
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777))?;
        load(&shared)?;
        ensure!(compiled(&shared)?.is_empty());
    }
    // If the cache is broken or not writable, the component is compiled again.
    let file = home.join("file");
    std::fs::write(&file, "no folder")?;
    load(&file)?;
    Ok(())
}

#[test]
fn second_compiled_copy_gives_same_answers() -> Result<()> {
    let released = std::fs::read(artifacts::component()?)?;
    let component = Arc::new(load(&peers::folder("copies")?, &released)?);
    let guard = ComponentGuard::new(Arc::clone(&component), "{}", "me", NOW_MS, &[SIGNING_KEY])?;
    ensure!(!component.has_copy_for_short_messages());
    let Verdict::Forward(_, ticket) = guard.request(&walk::call("t", &json!({})))? else {
        bail!("answered")
    };
    let (short, long) = (answer(700), answer(20_000));
    let (as_short, as_long) = (guard.response(&ticket, &short)?, guard.response(&ticket, &long)?);
    ensure!(as_short.0.is_some() && as_long.0.is_some());
    // After the first long message a second copy is compiled, and takes over the short ones.
    wait_until("a second compiled copy", || {
        ensure!(guard.response(&ticket, &short)? == as_short);
        Ok(component.has_copy_for_short_messages())
    })?;
    ensure!(guard.response(&ticket, &short)? == as_short);
    ensure!(guard.response(&ticket, &long)? == as_long);
    Ok(())
}
