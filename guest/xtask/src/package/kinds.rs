//! The packages of one target: npm, wheel, Debian package, tarball and `.mcpb` bundle.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::archive::{BEST, Entry, ar, gzip, sha256, tar, xz, zip};
use super::table::{LICENSE, REGISTRY_NAME, REPOSITORY, SUMMARY, TARGETS, Target, VERSION};

/// The program for one target, and the texts that it generates.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) target: &'static Target,
    pub(crate) program: Vec<u8>,
    /// The version of glibc that the program needs, such as `2.28`. `None` without glibc.
    pub(crate) glibc: Option<String>,
    /// Completion scripts and manual pages, by file name.
    pub(crate) texts: Vec<(String, Vec<u8>)>,
    pub(crate) license: Vec<u8>,
    pub(crate) readme: Vec<u8>,
    /// The level of compression, from 0 to 9.
    pub(crate) level: u32,
}

/// A package: its file name and its bytes.
pub(crate) type Package = (String, Vec<u8>);

/// Returns the npm package with the program of one target.
pub(crate) fn npm_program(input: &Input) -> Result<Package> {
    let (os, cpu, libc) = input.target.npm;
    let name = input.target.npm_name();
    let mut manifest = json!({
        "name": name,
        "version": VERSION,
        "description": format!("The program context-guard for {os} {cpu}"),
        "license": LICENSE,
        "repository": REPOSITORY,
        "os": [os],
        "cpu": [cpu],
        "preferUnplugged": true,
    });
    if let (Some(libc), Some(members)) = (libc, manifest.as_object_mut()) {
        members.insert("libc".to_owned(), json!([libc]));
    }
    let entries = [
        Entry::file("package/package.json", format!("{manifest:#}\n")),
        Entry::program(format!("package/bin/{}", input.target.program()), &input.program),
        Entry::file("package/LICENSE", input.license.clone()),
    ];
    Ok((format!("{name}-{VERSION}.tgz"), gzip(&tar(&entries)?, input.level)?))
}

/// Returns the npm package `context-guard`: the library for browsers, if its files are given, and
/// the launcher of the program.
pub(crate) fn npm_launcher(
    mut manifest: serde_json::Value,
    files: Vec<Entry>,
    launcher: &[u8],
) -> Result<Package> {
    if let Some(members) = manifest.as_object_mut() {
        members.insert("bin".to_owned(), json!({"context-guard": "bin/context-guard.js"}));
        members.insert("mcpName".to_owned(), json!(REGISTRY_NAME));
        members.insert("repository".to_owned(), json!(REPOSITORY));
        let programs = TARGETS.iter().map(|target| (target.npm_name(), json!(VERSION)));
        members.insert(
            "optionalDependencies".to_owned(),
            programs.collect::<serde_json::Map<_, _>>().into(),
        );
        if let Some(files) = members.get_mut("files").and_then(|files| files.as_array_mut()) {
            files.push(json!("bin"));
        }
    }
    let mut entries = vec![
        Entry::file("package/package.json", format!("{manifest:#}\n")),
        Entry::program("package/bin/context-guard.js", launcher),
    ];
    entries.extend(files);
    Ok((format!("context-guard-{VERSION}.tgz"), gzip(&tar(&entries)?, BEST)?))
}

/// Returns the Python wheel. Its script is the program itself, without Python.
pub(crate) fn wheel(input: &Input) -> Result<Package> {
    let glibc = input.glibc.as_deref().unwrap_or_default().replace('.', "_");
    let tag = format!("py3-none-{}", input.target.wheel.replace("{glibc}", &glibc));
    let info = format!("context_guard-{VERSION}.dist-info");
    let readme = String::from_utf8_lossy(&input.readme);
    let metadata = format!(
        "Metadata-Version: 2.4\nName: context-guard\nVersion: {VERSION}\nSummary: {SUMMARY}\n\
         License-Expression: {LICENSE}\nLicense-File: LICENSE\nProject-URL: Repository, \
         {REPOSITORY}\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n\
         <!-- mcp-name: {REGISTRY_NAME} -->\n\n{readme}"
    );
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: context-guard\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    let script = format!("context_guard-{VERSION}.data/scripts/{}", input.target.program());
    let mut entries = vec![
        Entry::program(script, &input.program),
        Entry::file(format!("{info}/METADATA"), metadata),
        Entry::file(format!("{info}/WHEEL"), wheel),
        Entry::file(format!("{info}/licenses/LICENSE"), input.license.clone()),
    ];
    let mut record = String::new();
    for entry in &entries {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&entry.bytes));
        record.push_str(&format!("{},sha256={digest},{}\n", entry.path, entry.bytes.len()));
    }
    record.push_str(&format!("{info}/RECORD,,\n"));
    entries.push(Entry::file(format!("{info}/RECORD"), record));
    Ok((format!("context_guard-{VERSION}-{tag}.whl"), zip(&entries, input.level)?))
}

/// The licence of the Debian package. Debian demands a reference to the text that all systems have.
const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n\
     Files: *\nCopyright: 2026 the contributors of context-guard\nLicense: Apache-2.0\n \
     The licence is in /usr/share/common-licenses/Apache-2.0 on Debian systems.\n";
/// lintian takes the messages of the YAML parser, which is written in Rust, for the C library.
const LINTIAN: &str = "context-guard: embedded-library libyaml *\n";

/// Returns the Debian package: the program, a systemd unit, manual pages and completions.
pub(crate) fn debian(input: &Input, architecture: &str) -> Result<Package> {
    let mut files = vec![
        Entry::program("./usr/bin/context-guard", &input.program),
        Entry::file(
            "./usr/lib/systemd/system/context-guard.service",
            include_bytes!("../../../../packaging/context-guard.service"),
        ),
        Entry::file(
            "./etc/context-guard/gateway.yaml",
            include_bytes!("../../../../packaging/gateway.yaml"),
        ),
        Entry::file("./usr/share/doc/context-guard/copyright", COPYRIGHT),
        Entry::file("./usr/share/lintian/overrides/context-guard", LINTIAN),
        Entry::file(
            "./usr/share/doc/context-guard/changelog.gz",
            gzip(include_bytes!("../../../../CHANGELOG.md"), BEST)?,
        ),
    ];
    for (name, text) in &input.texts {
        files.push(match name.as_str() {
            "context-guard.bash" => {
                Entry::file("./usr/share/bash-completion/completions/context-guard", text.clone())
            }
            "context-guard.zsh" => {
                Entry::file("./usr/share/zsh/vendor-completions/_context-guard", text.clone())
            }
            "context-guard.fish" => Entry::file(
                "./usr/share/fish/vendor_completions.d/context-guard.fish",
                text.clone(),
            ),
            page => Entry::file(format!("./usr/share/man/man1/{page}.gz"), gzip(text, BEST)?),
        });
    }
    let kilobytes = files.iter().map(|file| file.bytes.len()).sum::<usize>().div_ceil(1024);
    let glibc = input.glibc.as_deref().unwrap_or("2.28");
    let control = format!(
        "Package: context-guard\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: \
         context-guard <context-guard@users.noreply.github.com>\nInstalled-Size: {kilobytes}\nDepends: libc6 \
         (>= {glibc}), libgcc-s1\nSection: net\nPriority: optional\nHomepage: {REPOSITORY}\n\
         Description: filter between MCP clients and servers\n {SUMMARY}.\n"
    );
    let sums: String = files
        .iter()
        .map(|file| {
            let path = file.path.trim_start_matches("./");
            format!("{}  {path}\n", md5(&file.bytes))
        })
        .collect();
    let control = gzip(
        &tar(&[
            Entry::file("./control", control),
            Entry::file("./conffiles", "/etc/context-guard/gateway.yaml\n"),
            Entry::file("./md5sums", sums),
        ])?,
        BEST,
    )?;
    let data = xz(&tar(&files)?, input.target.xz_filter(), input.level)?;
    let archive =
        ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.xz", &data)]);
    Ok((format!("context-guard_{VERSION}_{architecture}.deb"), archive))
}

/// Returns the MD5 that the format of Debian packages demands.
fn md5(bytes: &[u8]) -> String {
    use md5::Digest as _;
    md5::Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the archive of a release: the program with its texts.
pub(crate) fn tarball(input: &Input) -> Result<Package> {
    let folder = input.target.archive();
    let mut entries = vec![
        Entry::program(format!("{folder}/{}", input.target.program()), &input.program),
        Entry::file(format!("{folder}/LICENSE"), input.license.clone()),
        Entry::file(format!("{folder}/README.md"), input.readme.clone()),
    ];
    for (name, text) in &input.texts {
        let kind = if name.ends_with(".1") { "man" } else { "completions" };
        entries.push(Entry::file(format!("{folder}/{kind}/{name}"), text.clone()));
    }
    Ok((format!("{folder}.tar.xz"), xz(&tar(&entries)?, input.target.xz_filter(), input.level)?))
}

/// Returns the bundle for desktop clients: the gateway over stdio, with the user's gateway file.
pub(crate) fn mcpb(inputs: &[Input]) -> Result<Package> {
    // A bundle has one program for each operating system.
    let mut systems: Vec<&Input> = Vec::new();
    for input in inputs {
        if systems.iter().all(|known| known.target.mcpb != input.target.mcpb) {
            systems.push(input);
        }
    }
    let path = |input: &Input| format!("server/{}/{}", input.target.mcpb, input.target.program());
    let arguments = json!(["stdio", "--config", "${user_config.gateway}"]);
    let command = |input: &Input| json!({"command": format!("${{__dirname}}/{}", path(input)), "args": arguments});
    let first = systems.first().map(|input| (path(input), command(input)));
    let (entry_point, mut config) = first.unwrap_or_default();
    if let Some(members) = config.as_object_mut() {
        let others = systems.iter().skip(1);
        let overrides = others.map(|input| (input.target.mcpb.to_owned(), command(input)));
        members.insert(
            "platform_overrides".to_owned(),
            overrides.collect::<serde_json::Map<_, _>>().into(),
        );
    }
    let platforms: Vec<&str> = systems.iter().map(|input| input.target.mcpb).collect();
    let manifest = json!({
        "manifest_version": "0.3",
        "name": "context-guard",
        "display_name": "context-guard",
        "version": VERSION,
        "description": SUMMARY,
        "author": {"name": "context-guard"},
        "license": LICENSE,
        "repository": {"type": "git", "url": REPOSITORY},
        "server": {"type": "binary", "entry_point": entry_point, "mcp_config": config},
        "compatibility": {"platforms": platforms},
        "user_config": {
            "gateway": {
                "type": "file",
                "title": "Gateway file",
                "description": "The YAML file with your MCP servers; `context-guard config import` writes one",
                "required": true,
            },
        },
        "tools_generated": true,
    });
    let mut entries = vec![Entry::file("manifest.json", format!("{manifest:#}\n"))];
    entries.extend(systems.iter().map(|input| Entry::program(path(input), &input.program)));
    let level = inputs.first().map_or(BEST, |input| input.level);
    Ok((format!("context-guard-{VERSION}.mcpb"), zip(&entries, level)?))
}

/// Returns the digest of a package for checksums and manifests.
pub(crate) fn checksum(package: &Package) -> String {
    sha256(&package.1)
}
