//! A cursor store as a component, for hosts without one.
//!
//! The features `draft` and `draft2` implement it over the host's draft of wasi:keyvalue. Without
//! them every call reports that the store is unavailable, and the guard calls the upstream again.
//!
//! wasi:keyvalue has no expiry. Each value is therefore prefixed with its expiry, and an expired
//! value is removed when it is read.
#![cfg(target_family = "wasm")]

#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes_without_reason,
    reason = "generated from wit/"
)]
mod bindings {
    #[cfg(feature = "draft")]
    wit_bindgen::generate!({
        inline: "
            package context-guard:store;
            world keyvalue {
                import wasi:clocks/wall-clock@0.2.0;
                import wasi:keyvalue/store@0.2.0-draft;
                export context-guard:guard/cursor-store@0.1.0;
            }
        ",
        path: ["../../../wit", "wit/draft"],
        world: "context-guard:store/keyvalue",
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
    #[cfg(feature = "draft2")]
    wit_bindgen::generate!({
        inline: "
            package context-guard:store;
            world keyvalue {
                import wasi:clocks/wall-clock@0.2.0;
                import wasi:keyvalue/store@0.2.0-draft2;
                export context-guard:guard/cursor-store@0.1.0;
            }
        ",
        path: ["../../../wit", "wit/draft2"],
        world: "context-guard:store/keyvalue",
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
    #[cfg(not(any(feature = "draft", feature = "draft2")))]
    wit_bindgen::generate!({
        inline: "
            package context-guard:store;
            world none {
                export context-guard:guard/cursor-store@0.1.0;
            }
        ",
        path: "../../../wit",
        world: "context-guard:store/none",
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
    use super::Store;
    export!(Store);
}

#[cfg(any(feature = "draft", feature = "draft2"))]
mod keyvalue;
#[cfg(not(any(feature = "draft", feature = "draft2")))]
mod none;

struct Store;
