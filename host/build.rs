//! Takes the guard component and the sandbox for programs into the binary, compressed, if the build
//! names them: `cargo xtask` does.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use lzma_rust2::{LzmaOptions, LzmaWriter};
use sha2::{Digest as _, Sha256};

/// The variables that name the components, and their constants in the library.
const COMPONENTS: [(&str, &str); 2] =
    [("CONTEXT_GUARD_EMBED", "COMPONENT"), ("CONTEXT_GUARD_CODE_EMBED", "SANDBOX")];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::var("OUT_DIR")?;
    let mut source = String::new();
    for (variable, constant) in COMPONENTS {
        println!("cargo::rerun-if-env-changed={variable}");
        write!(source, "pub(crate) const {constant}: Option<EmbeddedComponent> = ")?;
        let Ok(path) = std::env::var(variable) else {
            source.push_str("None;\n");
            continue;
        };
        println!("cargo::rerun-if-changed={path}");
        let component = std::fs::read(path)?;
        let digest = Sha256::digest(&component);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{constant}.lzma");
        std::fs::write(Path::new(&folder).join(&name), compress(&component)?)?;
        writeln!(
            source,
            "Some(EmbeddedComponent::new(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\")), \
             \"{digest}\"));"
        )?;
    }
    std::fs::write(Path::new(&folder).join("embedded.rs"), source)?;
    Ok(())
}

/// Compresses a component with LZMA. A debug build does it quickly, because it is seldom started.
fn compress(component: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let is_debug = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let mut options = LzmaOptions::with_preset(if is_debug { 0 } else { 9 });
    // Decompressing takes as much memory.
    options.dict_size = u32::try_from(component.len())?.next_power_of_two().max(1 << 16);
    let length = Some(component.len() as u64);
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, length)?;
    writer.write_all(component)?;
    Ok(writer.finish()?)
}
