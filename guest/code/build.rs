//! Removes comments and indentation from the interface of programs: the sandbox must be small.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=src/prelude.js");
    let source = std::fs::read_to_string("src/prelude.js")?;
    let lines = source.lines().map(str::trim);
    let code: Vec<&str> = lines.filter(|line| !line.starts_with("//")).collect();
    let path = Path::new(&std::env::var("OUT_DIR")?).join("prelude.js");
    std::fs::write(path, code.join("\n"))?;
    Ok(())
}
