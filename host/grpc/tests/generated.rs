//! The code in `src/` is that of the interfaces in `proto/`.
#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::fs;
use std::path::Path;

/// The packages of the interfaces, and the files with their code.
const FILES: [(&str, &str); 2] =
    [("envoy.service.ext_proc.v3", "ext_proc"), ("agentgateway.dev.ext_mcp", "ext_mcp")];

/// The variable that writes the code.
const WRITE: &str = "CONTEXT_GUARD_BLESS";

#[test]
fn code_is_that_of_the_interfaces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interfaces = FILES.map(|(_, name)| format!("{name}.proto"));
    let interfaces = protox::compile(interfaces, [folder.join("proto")]).unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut options = tonic_prost_build::Config::new();
    options.bytes(["."]).disable_comments(["."]);
    tonic_prost_build::configure()
        .build_transport(false)
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .out_dir(out)
        .compile_fds_with_config(interfaces, options)
        .unwrap();
    for (package, name) in FILES {
        let generated = fs::read_to_string(out.join(format!("{package}.rs"))).unwrap();
        let file = folder.join(format!("src/{name}.rs"));
        if std::env::var_os(WRITE).is_some() {
            fs::write(&file, &generated).unwrap();
        }
        let is_same = fs::read_to_string(&file).unwrap() == generated;
        assert!(is_same, "{} is old: run this test with {WRITE}=1", file.display());
    }
}
