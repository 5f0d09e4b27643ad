//! Rust bindings of the interface between guard component and host, generated from wit/.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated from wit/")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "context-guard",
    additional_derives: [Clone, PartialEq],
});
