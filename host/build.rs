//! Takes the guard component and the sandbox for programs into the binary, if the build names them:
//! `cargo xtask` does.

fn main() {
    println!("cargo::rerun-if-env-changed=CONTEXT_GUARD_EMBED");
    println!("cargo::rustc-check-cfg=cfg(embedded_component)");
    if let Ok(path) = std::env::var("CONTEXT_GUARD_EMBED") {
        println!("cargo::rerun-if-changed={path}");
        println!("cargo::rustc-env=CONTEXT_GUARD_COMPONENT_PATH={path}");
        println!("cargo::rustc-cfg=embedded_component");
    }
    println!("cargo::rerun-if-env-changed=CONTEXT_GUARD_CODE_EMBED");
    println!("cargo::rustc-check-cfg=cfg(embedded_sandbox)");
    if let Ok(path) = std::env::var("CONTEXT_GUARD_CODE_EMBED") {
        println!("cargo::rerun-if-changed={path}");
        println!("cargo::rustc-env=CONTEXT_GUARD_SANDBOX_PATH={path}");
        println!("cargo::rustc-cfg=embedded_sandbox");
    }
}
