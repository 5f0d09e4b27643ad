//! The compiled guard component. It is compiled a second time after the first long message.
//!
//! The pool keeps the pages that an instance has written, and zeroes them for the next instance. It
//! prefers a slot of the same compiled copy. With one copy, a short message would pay for the pages
//! of earlier long messages. Therefore long messages keep the first copy, and short messages use
//! the second one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use wasmtime::component::{HasSelf, Linker};

use super::bindings::ContextGuardPre;
use super::bindings::context_guard::guard::{cursor_store, types};
use super::bindings::wasi::clocks::wall_clock;
use super::component_bytes::ComponentBytes;
use super::imports::State;
use crate::{background, compiled};

/// The minimum size of a long message, in bytes.
const LONG_MESSAGE_BYTES: usize = 128 << 10;

/// A compiled and linked guard component. It has one compiled copy for all messages, or one for
/// long and one for short messages.
pub(super) struct CompiledVariants {
    first: ContextGuardPre<State>,
    short: Arc<OnceLock<ContextGuardPre<State>>>,
    /// The component for the second compilation. `None` after it has started.
    source: Mutex<Option<ComponentSource>>,
}

/// A component to compile, and the folder for the result.
#[derive(Clone)]
pub(super) struct ComponentSource {
    pub(super) engine: wasmtime::Engine,
    /// The folder of the cache of compiled components. `None` without a cache.
    pub(super) folder: Option<PathBuf>,
    pub(super) bytes: ComponentBytes,
    pub(super) digest: String,
}

impl CompiledVariants {
    /// Compiles and links a component. Also returns the names of its imports.
    pub(super) fn compile(source: ComponentSource) -> wasmtime::Result<(Self, Vec<String>)> {
        let (first, imports) = linked(&source)?;
        let source = Mutex::new(Some(source));
        Ok((Self { first, short: Arc::default(), source }, imports))
    }

    /// Returns the compiled copy to use for a message of `bytes` bytes. The first long message
    /// starts the compilation of the second copy.
    pub(super) fn for_message(&self, bytes: usize) -> &ContextGuardPre<State> {
        if bytes < LONG_MESSAGE_BYTES {
            return self.short.get().unwrap_or(&self.first);
        }
        if self.short.get().is_none() {
            self.compile_another();
        }
        &self.first
    }

    /// Returns true if the second compiled copy is ready. Long and short messages then use
    /// different copies.
    pub(super) fn has_second(&self) -> bool {
        self.short.get().is_some()
    }

    /// Starts to compile the second copy in the background. Has no effect if it was started before.
    fn compile_another(&self) {
        let source = self.source.lock().ok().and_then(|mut source| source.take());
        let Some(source) = source else { return };
        let short = Arc::clone(&self.short);
        // If this fails, the first copy continues to serve all messages.
        background::spawn(move || {
            let _ = linked(&source).map(|(copy, _)| short.set(copy));
        });
    }
}

fn linked(source: &ComponentSource) -> wasmtime::Result<(ContextGuardPre<State>, Vec<String>)> {
    let engine = &source.engine;
    let component =
        compiled::component(engine, source.folder.as_deref(), &source.bytes, &source.digest)?;
    let kind = component.component_type();
    let imports: Vec<String> = kind.imports(engine).map(|(name, _)| name.to_owned()).collect();
    let missing: Vec<&str> =
        imports.iter().map(String::as_str).filter(|name| !is_provided(name)).collect();
    if !missing.is_empty() {
        wasmtime::bail!(
            "the component imports {}, which this host does not provide; build it for \
             wasm32-unknown-unknown, as `cargo xtask build` does",
            missing.join(", ")
        );
    }
    let mut linker = Linker::<State>::new(engine);
    cursor_store::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    types::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    wall_clock::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    let pre = linker.instantiate_pre(&component).and_then(ContextGuardPre::new)?;
    Ok((pre, imports))
}

/// Returns true if this host provides the interface `import`: the store, the types or the clock.
fn is_provided(import: &str) -> bool {
    let Some((interface, _version)) = import.split_once('@') else { return false };
    matches!(
        interface,
        "context-guard:guard/cursor-store" | "context-guard:guard/types" | "wasi:clocks/wall-clock"
    )
}
