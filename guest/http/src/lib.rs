//! The wasi:http middleware, independent of the WASI version. The crates `p2` and `p3` bind it to
//! WASI 0.2 and 0.3.
//!
//! The guard and its cursor store are components of their own. `cargo xtask dist` composes them
//! with this one.
//!
//! - [`serve`]: an exchange, for any body type.
//! - `config`: the configuration in the environment.

mod body;
mod config;
mod filter;
mod serve;

pub use body::ForwardedBody;
pub use serve::serve;

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
    wit_bindgen::generate!({
        inline: "
            package context-guard:middleware;
            world middleware {
                import context-guard:guard/guard@0.1.0;
            }
        ",
        path: "../../wit",
        world: "context-guard:middleware/middleware",
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
}
