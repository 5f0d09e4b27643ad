//! A JavaScript engine as a component: runs one program over the tools and the stored answers that
//! its host offers.
//!
//! The program is the body of an asynchronous function. The sandbox has no clock, no files and no
//! network. The host ends it at its deadline and at its memory limit.

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
    reason = "generated from wit/code/"
)]
mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/code",
        world: "code",
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
    use super::Sandbox;
    export!(Sandbox);
}

mod clock;
mod failure;
mod functions;
mod run;
mod types;

use bindings::Guest;
use bindings::context_guard::code::types::{Failure, Limits};

struct Sandbox;

impl Guest for Sandbox {
    fn run(
        program: String,
        input: String,
        cursors: Vec<String>,
        limits: Limits,
    ) -> Result<Vec<u8>, Failure> {
        run::run(&program, &input, cursors, limits)
    }
}
