//! The contract in `wit/`, its copies in `tests/wit`, and the released component.
//!
//! Version 0.1.0 is a draft until its first release: its copy changes with it. The release freezes
//! the copy.

use std::path::Path;

use context_guard::engine::HostServices;
use context_guard_test_support::guards::component;
use context_guard_test_support::{Result, artifacts, ensure};
use wit_component::DecodedWasm;
use wit_parser::{Resolve, WorldId};

/// Parses the contract in `folder` as a later compatible version. Merging equal versions would
/// compare nothing.
fn later(folder: &Path, change: impl Fn(String) -> String) -> Result<(Resolve, WorldId)> {
    let copy = context_guard_test_support::peers::folder(&format!(
        "wit-{:?}",
        std::thread::current().id()
    ))?;
    std::fs::create_dir_all(copy.join("deps/clocks"))?;
    let text = std::fs::read_to_string(folder.join("guard.wit"))?;
    std::fs::write(
        copy.join("guard.wit"),
        change(text.replace("guard:guard@0.1.0;", "guard:guard@0.1.999;")),
    )?;
    std::fs::copy(
        folder.join("deps/clocks/wall-clock.wit"),
        copy.join("deps/clocks/wall-clock.wit"),
    )?;
    let read = world(&copy);
    std::fs::remove_dir_all(copy)?;
    read
}

fn world(folder: &Path) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder)?;
    let world = resolve.select_world(&[package], Some("context-guard"))?;
    Ok((resolve, world))
}

/// Returns true if the contract, after a change, serves components that were built against the
/// copy.
fn compatible(change: impl Fn(String) -> String) -> Result<bool> {
    let (mut resolve, new) = later(&artifacts::root().join("wit"), change)?;
    let (copy, old) = world(&artifacts::root().join("tests/wit/0.1.0"))?;
    let old = resolve.merge(copy)?.map_world(old, Default::default())?;
    Ok(wit_component::semver_check(resolve, old, new).is_ok())
}

#[test]
fn contract_is_compatible_with_its_copy() -> Result<()> {
    ensure!(compatible(|wit| wit)?, "wit/ is not compatible with tests/wit/0.1.0");
    Ok(())
}

/// Proves that the check above can fail.
#[test]
fn incompatible_contracts_are_rejected() -> Result<()> {
    ensure!(
        !compatible(|wit| wit.replace(
            "    export guard;",
            "    export guard;\n    @since(version = 0.1.0)\n    export more: func();"
        ))?,
        "an export more"
    );
    ensure!(
        !compatible(
            |wit| wit.replace("        too-deep,\n", "        too-deep,\n        too-odd,\n")
        )?,
        "a case more"
    );
    Ok(())
}

/// A draft and its copy are equal. Comments count, because they name the known options. The first
/// release of 0.1.0 removes this test.
#[test]
fn draft_equals_its_copy() -> Result<()> {
    let read =
        |folder: &str| std::fs::read_to_string(artifacts::root().join(folder).join("guard.wit"));
    ensure!(read("wit")? == read("tests/wit/0.1.0")?, "copy wit/guard.wit to tests/wit/0.1.0");
    Ok(())
}

#[test]
fn component_imports_only_its_world() -> Result<()> {
    let mut imports = component()?.imports().to_vec();
    imports.sort();
    ensure!(
        imports
            == [
                "context-guard:guard/cursor-store@0.1.0",
                "context-guard:guard/types@0.1.0",
                "wasi:clocks/wall-clock@0.2.0"
            ],
        "{imports:?}"
    );
    let DecodedWasm::Component(resolve, world) =
        wit_component::decode(&std::fs::read(artifacts::component()?)?)?
    else {
        context_guard_test_support::bail!("the artifact is not a component")
    };
    let exports: Vec<String> =
        resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect();
    ensure!(exports == ["context-guard:guard/guard@0.1.0"], "{exports:?}");
    Ok(())
}

#[test]
fn component_describes_itself() -> Result<()> {
    use context_guard::clock::SystemClock;
    use context_guard_test_support::guards::InspectableStore;
    use std::sync::Arc;
    let services =
        HostServices { store: Arc::new(InspectableStore::default()), clock: Arc::new(SystemClock) };
    let description = component()?.describe(&services)?;
    ensure!(
        description.name == "context-guard" && description.version == env!("CARGO_PKG_VERSION")
    );
    ensure!(description.protocol_revisions.contains(&"2026-07-28".to_owned()));
    ensure!(description.policy_schema_digest == context_guard_core::policy::schema_digest());
    Ok(())
}
