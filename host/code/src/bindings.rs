//! Rust bindings of the interface between sandbox and host, generated from wit/code/.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated from wit/code/")]

wasmtime::component::bindgen!({
    path: "../../wit/code",
    world: "code",
    imports: { default: trappable },
});
