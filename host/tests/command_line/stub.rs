//! A guard component that forwards every message unchanged.

use std::path::PathBuf;
use std::sync::LazyLock;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A module whose results are zeros: the first case of each variant, and empty lists. These mean
/// "forward, unchanged".
const MODULE: &str = r#"(module
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
    (func (export "context-guard:guard/guard@0.1.0#on-request") (param i32) (result i32) (i32.const 1024))
    (func (export "context-guard:guard/guard@0.1.0#on-response") (param i32) (result i32) (i32.const 1024)))"#;

/// Returns the path of the component, which is built once.
pub(crate) fn path() -> PathBuf {
    static FILE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
        let mut module = wat::parse_str(MODULE).unwrap();
        let mut resolve = Resolve::default();
        let wit = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wit");
        let (package, _) = resolve.push_dir(wit).unwrap();
        let world = resolve.select_world(&[package], Some("context-guard")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        let encoder = ComponentEncoder::default().module(&module).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stub.wasm");
        std::fs::write(&path, encoder.validate(true).encode().unwrap()).unwrap();
        (folder, path)
    });
    FILE.1.clone()
}
