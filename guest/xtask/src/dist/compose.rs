//! Composes the middleware, the guard and a cursor store to one component.

use std::path::Path;

use anyhow::{Context, Result};
use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, plug};

use crate::{build, write};

/// The compilation target of the middleware and store components.
const TRIPLE: &str = "wasm32-wasip2";

/// The variants of the middleware: for WASI 0.2 and for WASI 0.3.
const FORMS: [&str; 2] = ["p2", "p3"];
/// The cursor stores to compose with: the suffix of the artifact's file name, and the cargo feature
/// that selects the store.
const STORES: [(&str, &str); 3] = [("", "draft"), ("-spin", "draft2"), ("-replay", "")];
/// The package of the component that ends a chain of wasi:http handlers, for hosts that provide no
/// last handler.
const FORWARD: &str = "context-guard-http-forward";

/// Composes the guard with every combination of middleware and store, and writes the components to
/// `folder`.
pub(crate) fn all(guard: &Path, folder: &Path) -> Result<()> {
    let guard = std::fs::read(guard)?;
    let forward = part(FORWARD, "")?;
    write(&folder.join(FORWARD).with_extension("wasm"), &forward)?;
    for (suffix, features) in STORES {
        let store = part("context-guard-store", features)?;
        let guard = plugged(&guard, &store).context("the store does not fit the guard")?;
        for form in FORMS {
            let name = format!("context-guard-http-{form}");
            let composed = plugged(&part(&name, "")?, &guard)
                .with_context(|| format!("{name}: the guard does not fit the middleware"))?;
            write(&folder.join(format!("{name}{suffix}.wasm")), &composed)?;
            // A middleware that forwards to the end of the chain is a proxy.
            if form == "p3" {
                let proxy = plugged(&composed, &forward)?;
                write(&folder.join(format!("{name}-proxy{suffix}.wasm")), &proxy)?;
            }
        }
    }
    Ok(())
}

fn part(package: &str, features: &str) -> Result<Vec<u8>> {
    let built = build::guest(package, "guest", TRIPLE, &["--features", features])?;
    Ok(std::fs::read(built)?)
}

/// Connects the imports of the component `socket` to the exports of the component `plugged`.
/// Returns the composed component, which exports what `socket` exports.
fn plugged(socket: &[u8], plugged: &[u8]) -> Result<Vec<u8>> {
    let mut graph = CompositionGraph::new();
    let package = Package::from_bytes("guard:plug", None, plugged.to_vec(), graph.types_mut())?;
    let inner = graph.register_package(package)?;
    let package = Package::from_bytes("guard:socket", None, socket.to_vec(), graph.types_mut())?;
    let outer = graph.register_package(package)?;
    plug(&mut graph, vec![inner], outer)?;
    Ok(graph.encode(EncodeOptions::default())?)
}
