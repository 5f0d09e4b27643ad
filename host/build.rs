//! Takes the guard component into the binary, if the build names one: `cargo xtask` does.

fn main() {
    println!("cargo::rerun-if-env-changed=CONTEXT_GUARD_EMBED");
    println!("cargo::rustc-check-cfg=cfg(embedded_component)");
    if let Ok(path) = std::env::var("CONTEXT_GUARD_EMBED") {
        println!("cargo::rerun-if-changed={path}");
        println!("cargo::rustc-env=CONTEXT_GUARD_COMPONENT_PATH={path}");
        println!("cargo::rustc-cfg=embedded_component");
    }
}
