//! Guard components that return constants or fail, for tests that need no guard.

use anyhow::Result;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The body of the exports that answers with zeros: the first case of each variant, and empty
/// lists. These mean "forward, unchanged".
pub const FORWARD: &str = "(i32.const 1024)";

/// Returns a module that describes itself, accepts any policy, and runs `body` for each message.
fn module(body: &str) -> String {
    format!(
        r#"(module
            (import "context-guard:guard/cursor-store@0.1.0" "get" (func (param i32 i32 i32)))
            (memory (export "memory") 2)
            (global $next (mut i32) (i32.const 4096))
            ;; compile-policy: ok, onFault limit, a byte limit of 10240, a ttl of 600000.
            (data (i32.const 80) "\01")
            (data (i32.const 88) "\00\28\00\00\00\00\00\00\c0\27\09\00\00\00\00\00")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (global.set $next (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
                (local.set $at (global.get $next))
                (global.set $next (i32.add (global.get $next) (local.get 3)))
                (block $enough
                    (loop $grow
                        (br_if $enough (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
                        (br_if $grow (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))
                        unreachable))
                (local.get $at))
            (func (export "context-guard:guard/guard@0.1.0#describe") (result i32) (i32.const 16))
            (func (export "context-guard:guard/guard@0.1.0#compile-policy") (param i32 i32) (result i32) (i32.const 64))
            (func (export "context-guard:guard/guard@0.1.0#on-request") (param i32) (result i32) {body})
            (func (export "context-guard:guard/guard@0.1.0#read-stored") (param i32) (result i32) (unreachable))
            (func (export "context-guard:guard/guard@0.1.0#on-response") (param i32) (result i32) {body}))"#
    )
}

/// Returns a guard component whose handlers of messages run `body`, in the text format of
/// WebAssembly: [`FORWARD`], or a fault.
///
/// # Errors
/// If `body` is invalid.
pub fn component_that(body: &str) -> Result<Vec<u8>> {
    let mut module = wat::parse_str(module(body))?;
    let mut resolve = Resolve::default();
    // Not by a path: a build folder may be shared by several checkouts.
    resolve.push_str("clocks.wit", include_str!("../../../wit/deps/clocks/wall-clock.wit"))?;
    let package = resolve.push_str("guard.wit", include_str!("../../../wit/guard.wit"))?;
    let world = resolve.select_world(&[package], Some("context-guard"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}
