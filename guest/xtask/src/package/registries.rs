//! Descriptions of the packages for registries: `server.json`, cargo-binstall and Homebrew.

use serde_json::{Value, json};

use super::kinds::{Package, checksum};
use super::oci::GATEWAY;
use super::table::{IMAGE, LICENSE, REGISTRY_NAME, REPOSITORY, SUMMARY, Target, VERSION};

/// Returns the URL of a file of the release.
pub(crate) fn release_url(file: &str) -> String {
    format!("{REPOSITORY}/releases/download/v{VERSION}/{file}")
}

/// Returns the entry of the registry of MCP servers. Each package runs the gateway over stdio.
pub(crate) fn server_json(bundle: &Package) -> Value {
    let arguments = json!([
        {"type": "positional", "value": "stdio"},
        {
            "type": "named",
            "name": "--config",
            "description": "The gateway file with your MCP servers",
            "format": "filepath",
            "isRequired": true,
        },
    ]);
    let stdio = json!({"type": "stdio"});
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": "context-guard",
        "description": SUMMARY,
        "version": VERSION,
        "repository": {"url": REPOSITORY, "source": "github"},
        "packages": [
            {
                "registryType": "npm",
                "identifier": "context-guard",
                "version": VERSION,
                "transport": stdio,
                "packageArguments": arguments,
            },
            {
                "registryType": "pypi",
                "identifier": "context-guard",
                "version": VERSION,
                "transport": stdio,
                "packageArguments": arguments,
            },
            {
                "registryType": "mcpb",
                "identifier": release_url(&bundle.0),
                "fileSha256": checksum(bundle),
                "transport": stdio,
            },
            {
                "registryType": "oci",
                "identifier": format!("{IMAGE}:{VERSION}"),
                "transport": stdio,
                "runtimeHint": "docker",
                "runtimeArguments": [{
                    "type": "named",
                    "name": "--mount",
                    "value": format!("type=bind,readonly,src={{gateway}},dst=/{GATEWAY}"),
                    "variables": {"gateway": {
                        "description": "The gateway file with your MCP servers",
                        "format": "filepath",
                        "isRequired": true,
                    }},
                }],
                "packageArguments": [
                    {"type": "positional", "value": "stdio"},
                    {"type": "named", "name": "--config", "value": format!("/{GATEWAY}")},
                ],
            },
        ],
    })
}

/// Returns the formula of Homebrew for the tarballs.
pub(crate) fn formula(tarballs: &[(&'static Target, Package)]) -> String {
    let mut text = format!(
        "class ContextGuard < Formula\n  desc \"{SUMMARY}\"\n  homepage \"{REPOSITORY}\"\n  \
         version \"{VERSION}\"\n  license \"{LICENSE}\"\n"
    );
    for (system, name) in [("macos", "darwin"), ("linux", "linux")] {
        let of_system = tarballs
            .iter()
            .filter(|(target, _)| target.npm.0 == name && target.npm.2 != Some("musl"));
        let blocks: String = of_system
            .map(|(target, package)| {
                let cpu = if target.npm.1 == "arm64" { "arm" } else { "intel" };
                format!(
                    "    on_{cpu} do\n      url \"{}\"\n      sha256 \"{}\"\n    end\n",
                    release_url(&package.0),
                    checksum(package)
                )
            })
            .collect();
        if !blocks.is_empty() {
            text.push_str(&format!("\n  on_{system} do\n{blocks}  end\n"));
        }
    }
    text.push_str(
        "\n  def install\n    bin.install \"context-guard\"\n    man1.install Dir[\"man/*.1\"]\n    \
         bash_completion.install \"completions/context-guard.bash\" => \"context-guard\"\n    \
         zsh_completion.install \"completions/context-guard.zsh\" => \"_context-guard\"\n    \
         fish_completion.install \"completions/context-guard.fish\"\n  end\n\n  test do\n    \
         assert_match version.to_s, shell_output(\"#{bin}/context-guard --version\")\n  end\nend\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::archive::Entry;
    use super::super::kinds::npm_launcher;
    use super::*;

    #[test]
    fn names_agree_in_all_packages() {
        let bundle: Package = ("context-guard.mcpb".to_owned(), b"bundle".to_vec());
        let server = server_json(&bundle);
        let manifest = json!({"name": "context-guard", "version": VERSION, "files": ["*.js"]});
        let (name, bytes) = npm_launcher(manifest, Vec::<Entry>::new(), b"#!").unwrap();
        assert_eq!(name, format!("context-guard-{VERSION}.tgz"));
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let file = archive
            .entries()
            .unwrap()
            .map(Result::unwrap)
            .find(|entry| entry.path().unwrap().ends_with("package.json"));
        let manifest: Value = serde_json::from_reader(file.unwrap()).unwrap();
        assert_eq!(manifest["mcpName"], server["name"]);
        assert_eq!(manifest["name"], server["packages"][0]["identifier"]);
        assert_eq!(manifest["optionalDependencies"].as_object().unwrap().len(), 6);
        assert_eq!(server["packages"][2]["fileSha256"], checksum(&bundle));
        let image = server["packages"][3]["identifier"].as_str().unwrap();
        assert_eq!(image.rsplit_once(':'), Some((IMAGE, VERSION)));
    }

    #[test]
    fn formula_has_each_tarball() {
        let tarballs: Vec<(&Target, Package)> =
            ["aarch64-apple-darwin", "x86_64-unknown-linux-gnu"]
                .map(|triple| Target::find(triple).unwrap())
                .map(|target| (target, (format!("{}.tar.xz", target.archive()), b"x".to_vec())))
                .into();
        let text = formula(&tarballs);
        for (target, package) in &tarballs {
            assert!(text.contains(&release_url(&package.0)), "{text}");
            assert!(text.contains(&checksum(package)), "{} {text}", target.triple);
        }
        assert_eq!(text.matches("  on_macos do").count(), 1);
    }
}
