//! A guard component, which is compiled once and called in a new instance for each call.

use std::borrow::Cow;

use wasmtime::Store;

use super::bindings::ContextGuard;
use super::bindings::exports::context_guard::guard::guard::Guest;
use super::compiled_variants::{CompiledVariants, ComponentSource};
use super::component_bytes::{ComponentBytes, EmbeddedComponent};
use super::imports::State;
use super::services::HostServices;
use crate::{
    CallContext, CompiledPolicy, Description, Engine, Error, Fault, RequestVerdict,
    ResponseVerdict, Result, Settings, Severity, StoredPart, StoredRange, digest,
};

/// The typical size of the parts of stored answers that programs read, in bytes. It selects the
/// compiled copy. A whole answer may be larger.
const PART_BYTES: usize = 1 << 20;

/// A compiled and linked guard component.
pub struct Component {
    engine: Engine,
    digest: String,
    bytes: ComponentBytes,
    variants: CompiledVariants,
    imports: Vec<String>,
}

impl Component {
    /// Compiles a component and checks that its imports and exports match this host.
    ///
    /// # Errors
    /// [`Error::Load`] if the bytes are not a component or do not match this host.
    pub fn load(engine: &Engine, bytes: &[u8]) -> Result<Self> {
        Self::load_with_digest(engine, ComponentBytes::Shared(bytes.into()), digest(bytes))
    }

    /// Compiles a component that is embedded in the program, as [`Self::load`] does. Decompresses
    /// it only if the cache of compiled components lacks it.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub fn load_embedded(engine: &Engine, component: EmbeddedComponent) -> Result<Self> {
        let digest = component.digest().to_owned();
        Self::load_with_digest(engine, ComponentBytes::Embedded(component), digest)
    }

    fn load_with_digest(engine: &Engine, bytes: ComponentBytes, digest: String) -> Result<Self> {
        let load = |error: wasmtime::Error| Error::Load(format!("{error:#}"));
        let source = ComponentSource {
            engine: engine.inner.clone(),
            folder: engine.compiled.clone(),
            bytes: bytes.clone(),
            digest: digest.clone(),
        };
        let (variants, imports) = CompiledVariants::compile(source).map_err(load)?;
        Ok(Self { engine: engine.clone(), digest, bytes, variants, imports })
    }

    /// Returns the engine for which the component was compiled.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the SHA-256 digest of the component's bytes, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the component's bytes. Decompresses an embedded component.
    ///
    /// # Errors
    /// [`Error::Load`] if an embedded component cannot be decompressed.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        self.bytes.read()
    }

    /// Returns the names of the interfaces that the component imports.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Returns true if the component has a second compiled copy, which serves short messages.
    #[must_use]
    pub fn has_copy_for_short_messages(&self) -> bool {
        self.variants.has_second()
    }

    /// Creates an instance with its own memory, for a message of `bytes` bytes. The instance can
    /// access only store entries of `principal`.
    ///
    /// # Errors
    /// [`Error::Trap`] if the pool is full.
    pub fn instance(
        &self,
        services: &HostServices,
        principal: &str,
        bytes: usize,
    ) -> Result<Instance> {
        let mut store =
            Store::new(&self.engine.inner, State::new(&self.engine, services, principal));
        store.limiter(|state| &mut state.limits);
        store.epoch_deadline_callback(|mut store| store.data_mut().pace.tick());
        store.set_epoch_deadline(1);
        let guard: ContextGuard =
            self.variants.for_message(bytes).instantiate(&mut store).map_err(trap)?;
        Ok(Instance { store, guard })
    }

    /// Runs `call` in a new instance, for a message of `bytes` bytes. The instance can access only
    /// store entries of `principal`.
    fn call<T>(
        &self,
        services: &HostServices,
        principal: &str,
        bytes: usize,
        call: impl FnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T> {
        self.instance(services, principal, bytes)?.call(call)
    }

    /// Returns the description of the component: its name, its version and the digest of its policy
    /// schema.
    ///
    /// # Errors
    /// [`Error::Trap`], [`Error::Deadline`].
    pub fn describe(&self, services: &HostServices) -> Result<Description> {
        self.call(services, "", 0, |guard, store| guard.call_describe(store))
    }

    /// Validates a policy in JSON, and compiles it to the settings that calls need. An empty text
    /// is the default policy.
    ///
    /// # Errors
    /// [`Error::Policy`] with all errors of the policy, [`Error::Trap`], [`Error::Deadline`].
    pub fn compile_policy(&self, services: &HostServices, json: &str) -> Result<CompiledPolicy> {
        let compiled =
            self.call(services, "", 0, |guard, store| guard.call_compile_policy(store, json))?;
        compiled.map_err(|all| {
            let faults: Vec<_> =
                all.into_iter().filter(|issue| issue.severity == Severity::Error).collect();
            Error::Policy(faults)
        })
    }

    /// Calls the guard on a client's JSON-RPC request. The verdict is to answer the request, or to
    /// forward it with or without changes.
    ///
    /// # Errors
    /// [`Error::Trap`], [`Error::Deadline`], [`Error::Fault`], [`Error::Store`].
    pub fn on_request(
        &self,
        services: &HostServices,
        settings: &Settings,
        cx: &CallContext,
        message: &[u8],
    ) -> Result<RequestVerdict> {
        let verdict = self.call(services, &cx.principal, message.len(), |guard, store| {
            guard.call_on_request(store, settings, cx, message)
        })?;
        verdict.map_err(failed)
    }

    /// Calls the guard on an upstream's JSON-RPC response. `ticket` is the ticket in the verdict on
    /// the request.
    ///
    /// # Errors
    /// [`Error::Trap`], [`Error::Deadline`], [`Error::Fault`], [`Error::Store`].
    pub fn on_response(
        &self,
        services: &HostServices,
        settings: &Settings,
        cx: &CallContext,
        ticket: &[u8],
        message: &[u8],
    ) -> Result<ResponseVerdict> {
        self.instance(services, &cx.principal, message.len())?
            .on_response(settings, cx, ticket, message)
    }

    /// Reads a part of the stored answer of a cursor, for a program of `cx.principal`.
    ///
    /// # Errors
    /// [`Error::Trap`], [`Error::Deadline`], [`Error::Store`], and [`Error::Fault`] with the
    /// reason, for the author of the program.
    pub fn read_stored(
        &self,
        services: &HostServices,
        settings: &Settings,
        cx: &CallContext,
        cursor: &str,
        range: StoredRange,
    ) -> Result<StoredPart> {
        // A part has about a megabyte, like a long message.
        let part = self.call(services, &cx.principal, PART_BYTES, |guard, store| {
            guard.call_read_stored(store, settings, cx, cursor, range)
        })?;
        part.map_err(|fault| match fault {
            Fault::Other(reason) => Error::Fault(reason),
            fault => failed(fault),
        })
    }
}

/// An instance of a guard component, with its own memory.
///
/// A host uses one instance for each call. A reused instance keeps its memory, so it must serve
/// only one principal.
pub struct Instance {
    store: Store<State>,
    guard: ContextGuard,
}

impl Instance {
    fn call<T>(
        &mut self,
        call: impl FnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T> {
        self.store.data_mut().pace.begin();
        self.store.set_epoch_deadline(1);
        let result = call(self.guard.context_guard_guard_guard(), &mut self.store).map_err(trap);
        self.store.data_mut().pace.end();
        result
    }

    /// Calls the guard on an upstream's JSON-RPC response. `ticket` is the ticket in the verdict on
    /// the request.
    ///
    /// # Errors
    /// [`Error::Trap`] and [`Error::Deadline`], after which the instance is unusable,
    /// [`Error::Fault`] and [`Error::Store`].
    pub fn on_response(
        &mut self,
        settings: &Settings,
        cx: &CallContext,
        ticket: &[u8],
        message: &[u8],
    ) -> Result<ResponseVerdict> {
        let verdict =
            self.call(|guard, store| guard.call_on_response(store, settings, cx, ticket, message))?;
        verdict.map_err(failed)
    }
}

fn trap(error: wasmtime::Error) -> Error {
    if error.root_cause().downcast_ref() == Some(&wasmtime::Trap::Interrupt) {
        return Error::Deadline;
    }
    Error::Trap(format!("{:#}", error.root_cause()))
}

/// Converts a fault that the guard reports to an error of this crate, by its cause: the message,
/// the store or the guard.
fn failed(fault: Fault) -> Error {
    match fault {
        Fault::Malformed(at) => Error::Fault(format!("not JSON at byte {at}")),
        Fault::UnexpectedShape(expected) => {
            Error::Fault(format!("not what the method announces: {expected}"))
        }
        Fault::TooDeep => Error::Fault("nested too deep".to_owned()),
        Fault::TooLarge(limit) => Error::Fault(format!(
            "the message exceeds {limit} bytes, the limit of the guard: request less data"
        )),
        Fault::Store(error) => Error::Store(error.into()),
        Fault::Other(reason) => Error::Trap(reason),
    }
}
