//! The wasi:http middleware, but for what WASI 0.2 and 0.3 do in different ways: `p2` and `p3` beside it bind each.
//!
//! The guard is another component, put together with this one (`cargo xtask dist`); so is its cursor store.
//!
//! - [`serve`]: an exchange, whatever its bodies are made of.
//! - [`config`]: what the environment says.

pub mod config;
mod filter;
mod sent;
mod serve;

pub use sent::Sent;
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
