//! OCI image layouts: the program as an image from scratch, and wasm files as artifacts.

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::{Entry, gzip, sha256, tar};
use super::kinds::Input;
use super::table::{LICENSE, REGISTRY_NAME, REPOSITORY, SUMMARY, VERSION};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The gateway file in the image.
pub(crate) const GATEWAY: &str = "etc/context-guard/gateway.yaml";

/// An image layout: its files by path.
pub(crate) struct Layout(Vec<Entry>, Vec<Value>);

impl Layout {
    pub(crate) const fn new() -> Self {
        Self(Vec::new(), Vec::new())
    }

    /// Adds a blob, and returns its descriptor.
    fn blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let size = bytes.len();
        self.0.push(Entry::file(format!("blobs/sha256/{digest}"), bytes));
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    }

    /// Adds a manifest to the index.
    fn manifest(&mut self, manifest: &Value, more: &[(&str, Value)]) {
        let mut descriptor = self.blob(MANIFEST, manifest.to_string().into_bytes());
        if let Some(members) = descriptor.as_object_mut() {
            for (name, value) in more {
                members.insert((*name).to_owned(), value.clone());
            }
        }
        self.1.push(descriptor);
    }

    /// Returns the files of the layout.
    pub(crate) fn finish(mut self) -> Vec<Entry> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.1});
        self.0.push(Entry::file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#));
        self.0.push(Entry::file("index.json", index.to_string()));
        self.0
    }

    /// Adds the image of one program. It has no shell and no other libraries than those given, so
    /// that a static program runs without any.
    pub(crate) fn add_image(&mut self, input: &Input, libraries: Vec<Entry>) -> Result<()> {
        let architecture =
            if input.target.triple.starts_with("aarch64") { "arm64" } else { "amd64" };
        let mut files = vec![
            Entry::program("usr/bin/context-guard", &input.program),
            Entry::file("usr/share/doc/context-guard/LICENSE", input.license.clone()),
            Entry::file("etc/passwd", "nobody:x:65534:65534:nobody:/:/sbin/nologin\n"),
            Entry::file(GATEWAY, include_bytes!("../../../../packaging/gateway.yaml")),
        ];
        files.extend(libraries);
        let files = tar(&files)?;
        let diff = format!("sha256:{}", sha256(&files));
        let layer =
            self.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&files, input.level)?);
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": "65534:65534",
                "Entrypoint": ["/usr/bin/context-guard"],
                "Cmd": ["serve", "--config", format!("/{GATEWAY}")],
                "Env": ["XDG_STATE_HOME=/tmp", "XDG_CACHE_HOME=/tmp"],
                "ExposedPorts": {"8808/tcp": {}},
                "Labels": {
                    "org.opencontainers.image.source": REPOSITORY,
                    "org.opencontainers.image.version": VERSION,
                    "org.opencontainers.image.licenses": LICENSE,
                    "org.opencontainers.image.description": SUMMARY,
                    // The registry of MCP servers compares it with server.json.
                    "io.modelcontextprotocol.server.name": REGISTRY_NAME,
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        });
        let config =
            self.blob("application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        let name = json!({"org.opencontainers.image.ref.name": VERSION});
        let platform = json!({"architecture": architecture, "os": "linux"});
        self.manifest(&manifest, &[("platform", platform), ("annotations", name)]);
        Ok(())
    }

    /// Adds a wasm file as an artifact, in the form that wasm runtimes and Envoy Gateway pull.
    pub(crate) fn add_wasm(&mut self, name: &str, bytes: Vec<u8>, is_component: bool) {
        let digest = format!("sha256:{}", sha256(&bytes));
        let layer = self.blob("application/wasm", bytes);
        let os = if is_component { "wasip2" } else { "wasip1" };
        let config = json!({"architecture": "wasm", "os": os, "layerDigests": [digest]});
        let config =
            self.blob("application/vnd.wasm.config.v0+json", config.to_string().into_bytes());
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        let reference = json!({"org.opencontainers.image.ref.name": format!("{name}-{VERSION}")});
        self.manifest(&manifest, &[("annotations", reference)]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::BEST;
    use super::super::table::Target;
    use super::*;

    fn input() -> Input {
        Input {
            target: Target::find("x86_64-unknown-linux-musl").unwrap(),
            program: b"program".to_vec(),
            glibc: None,
            texts: Vec::new(),
            license: b"license".to_vec(),
            readme: b"readme".to_vec(),
            level: BEST,
        }
    }

    /// Returns the blob of a descriptor, whose digest and size are checked.
    fn blob<'a>(files: &'a [Entry], descriptor: &Value) -> &'a [u8] {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = format!("blobs/sha256/{digest}");
        let file = files.iter().find(|file| file.path == path).unwrap();
        assert_eq!(sha256(&file.bytes), digest);
        assert_eq!(descriptor["size"], file.bytes.len());
        &file.bytes
    }

    #[test]
    fn descriptors_lead_to_their_blobs() {
        let mut layout = Layout::new();
        layout.add_image(&input(), vec![Entry::file("lib/library.so", "library")]).unwrap();
        layout.add_wasm("component", b"\0asm".to_vec(), true);
        let files = layout.finish();
        let index = files.iter().find(|file| file.path == "index.json").unwrap();
        let index: Value = serde_json::from_slice(&index.bytes).unwrap();
        let manifests = index["manifests"].as_array().unwrap();
        assert_eq!(manifests.len(), 2);
        for descriptor in manifests {
            let manifest: Value = serde_json::from_slice(blob(&files, descriptor)).unwrap();
            blob(&files, &manifest["layers"][0]);
            let config: Value = serde_json::from_slice(blob(&files, &manifest["config"])).unwrap();
            assert!(config["os"].is_string());
        }
    }
}
