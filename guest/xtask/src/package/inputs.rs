//! Reads the programs to package, and checks their size and the C library that they need.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::archive::Entry;
use super::build;
use super::kinds::Input;
use super::table::Target;

/// Returns the programs of the arguments TRIPLE=FILE.
pub(crate) fn read(programs: &[String], max_glibc: &str, level: u32) -> Result<Vec<Input>> {
    let pairs = pairs(programs)?;
    let host = host_triple()?;
    let own = pairs.iter().find(|(triple, _)| *triple == host);
    let (_, own) = own.with_context(|| {
        format!("a program for this machine ({host}) is needed, to write manual pages")
    })?;
    let texts = texts(own)?;
    let license = std::fs::read(build::root().join("LICENSE"))?;
    let readme = std::fs::read(build::root().join("README.md"))?;
    let mut inputs = Vec::new();
    for (triple, file) in &pairs {
        let target = Target::find(triple)?;
        let program = std::fs::read(file).with_context(|| file.display().to_string())?;
        let glibc = glibc(file).with_context(|| file.display().to_string())?;
        if let Some(needed) = &glibc {
            eprintln!("{}: needs glibc {needed}", file.display());
            if version(needed) > version(max_glibc) {
                bail!(
                    "{}: needs glibc {needed}, newer than {max_glibc}: build it on an older \
                     system or with cargo-zigbuild, or raise --max-glibc",
                    file.display()
                );
            }
        }
        inputs.push(Input {
            target,
            program,
            glibc,
            texts: texts.clone(),
            license: license.clone(),
            readme: readme.clone(),
            level,
        });
    }
    Ok(inputs)
}

/// Returns the targets and the files of the arguments TRIPLE=FILE.
pub(crate) fn pairs(programs: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let pair = |program: &String| {
        let pair = program.split_once('=');
        let (triple, file) =
            pair.with_context(|| format!("--program {program}: expected TRIPLE=FILE"))?;
        Ok((triple.to_owned(), PathBuf::from(file)))
    };
    programs.iter().map(pair).collect()
}

/// Returns the program for this machine, and its file.
pub(crate) fn own(programs: &[String], inputs: &[Input]) -> Result<(Input, PathBuf)> {
    let host = host_triple()?;
    let file = pairs(programs)?.into_iter().find(|(triple, _)| *triple == host);
    let input = inputs.iter().find(|input| input.target.triple == host);
    let found = input.cloned().zip(file.map(|(_, file)| file));
    found.with_context(|| format!("there is no program for {host}"))
}

/// Returns a static program for this machine, for an image without other files.
///
/// # Errors
/// The program needs a library.
pub(crate) fn static_program(file: &Path, inputs: &[Input]) -> Result<Input> {
    let host = host_triple()?;
    let own = inputs.iter().find(|input| input.target.triple == host);
    let own = own.with_context(|| format!("there is no program for {host}"))?;
    let output = Command::new("objdump").arg("-p").arg(file).output();
    let output = output.context("objdump cannot be started: install binutils")?;
    let headers = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || headers.contains("INTERP") || headers.contains("NEEDED") {
        bail!(
            "{}: is no static program: build one with `cargo xtask release --static`",
            file.display()
        );
    }
    let program = std::fs::read(file)?;
    Ok(Input { program, glibc: None, ..own.clone() })
}

/// Returns the libraries that a program of this machine needs, with the loader that starts it.
pub(crate) fn libraries(program: &Path) -> Result<Vec<Entry>> {
    let output = Command::new("ldd").arg(program).output().context("ldd cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let paths: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with('/')).collect();
    if !output.status.success() || paths.is_empty() {
        bail!("ldd {}: no libraries: {}", program.display(), text.trim());
    }
    let entry = |path: &str| {
        let bytes = std::fs::read(path).with_context(|| path.to_owned())?;
        Ok(Entry::program(path.trim_start_matches('/'), &bytes))
    };
    paths.into_iter().map(entry).collect()
}

/// Returns the target of rustc for this machine.
pub(crate) fn host_triple() -> Result<String> {
    let output = Command::new("rustc").current_dir(build::root()).arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Returns the completion scripts and manual pages that the program writes.
fn texts(program: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut texts = Vec::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(program).args(["completions", shell]).output()?;
        texts.push((format!("context-guard.{shell}"), output.stdout));
    }
    let folder = build::target().join("man");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    build::run(Command::new(program).arg("manual").arg(&folder))?;
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    pages.sort();
    for page in pages {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        texts.push((name, std::fs::read(&page)?));
    }
    Ok(texts)
}

/// Returns the newest version of glibc that a program needs, from the symbols that it imports.
/// `None` if it needs none.
fn glibc(program: &Path) -> Result<Option<String>> {
    let bytes = std::fs::read(program)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let output = Command::new("objdump")
        .arg("-T")
        .arg(program)
        .output()
        .context("objdump cannot be started: install binutils")?;
    Ok(newest(&String::from_utf8_lossy(&output.stdout)))
}

fn newest(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest.get(..end).filter(|version| !version.is_empty())
    });
    versions.max_by_key(|text| version(text)).map(str::to_owned)
}

fn version(text: &str) -> Vec<u32> {
    text.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_glibc_is_found() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.9)  a\n0 DF *UND* 0 (GLIBC_2.28)  b\n0 w GCC_3.0 c";
        assert_eq!(newest(symbols).as_deref(), Some("2.28"));
        assert_eq!(newest("0 DF *UND* 0 (GLIBC_PRIVATE) a"), None);
        assert!(version("2.28") > version("2.9"));
    }
}
