//! Runs the guard component in wasmtime: compiles it, limits it and calls it.
//!
//! Each call uses a new instance from a pool, so that no data of one answer is visible to the next
//! call.

#![deny(unsafe_code)]

pub mod background;
mod bindings;
mod compiled;
mod compiled_variants;
mod component;
mod component_bytes;
mod digest;
mod error;
mod imports;
mod long_calls;
mod pace;
mod services;

pub use bindings::context_guard::guard::types::{
    Answered, CacheTier, CallContext, CompiledPolicy, Decision, Fault, Forwarded, LossClass,
    OnFault, Outcome, PolicyIssue, RequestVerdict, ResponseMode, ResponseVerdict, Settings,
    Severity, SigningKey, StoredPart, StoredRange,
};
pub use bindings::exports::context_guard::guard::guard::Description;
pub use compiled::compiled_folder;
pub use component::{Component, Instance};
pub use component_bytes::EmbeddedComponent;
pub use digest::digest;
pub use error::{Error, Result};
pub use pace::Pace;
pub use services::HostServices;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use self::component_bytes::ComponentBytes;
use self::long_calls::LongCalls;

/// The size of the address space into which a compact memory can grow before it moves, in bytes.
const GROWTH_RESERVATION: u64 = 64 << 20;
/// The number of unmapped bytes after a compact memory, which merge the bounds checks of nearby
/// accesses.
const GUARD_BYTES: u64 = 64 << 10;

/// The length of a wasmtime epoch. It is the resolution of deadlines, and of the switches between
/// long calls.
const EPOCH_TICK: Duration = Duration::from_millis(10);

/// The limits of guard calls, and the cache of compiled components.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The maximum memory of one guard call, in bytes.
    pub max_memory: usize,
    /// The maximum duration of one guard call, without the time for which it waits for a processor.
    /// Calls that use more than 10 ms of processor time alternate, so that one processor remains
    /// for short calls.
    pub deadline: Duration,
    /// The maximum number of concurrent guard calls. It does not apply to
    /// [`AddressSpace::Compact`].
    pub max_calls: u32,
    /// The address space that the engine reserves.
    pub address_space: AddressSpace,
    /// The folder of the cache of compiled components, such as [`compiled_folder`]. `None` disables
    /// the cache.
    pub compiled: Option<PathBuf>,
    /// Runs a function that blocks its thread while a guard call waits for a processor. For threads
    /// of an async executor, it must let another thread take over their tasks.
    pub block: fn(&mut dyn FnMut()),
}

/// The address space that an engine reserves. It is virtual memory without physical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSpace {
    /// 4 GiB for each concurrent call. Calls need no bounds checks, and memory is reused.
    Pool,
    /// The maximum memory of a call for each concurrent call. Calls check bounds, and memory is
    /// reused.
    Bounded,
    /// The address space that calls use. Calls check bounds, and memory is allocated for each call.
    Compact,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            max_memory: 512 << 20,
            deadline: Duration::from_secs(5),
            max_calls: 64,
            address_space: AddressSpace::Pool,
            compiled: None,
            block: |wait| wait(),
        }
    }
}

/// A configured WebAssembly engine. Clones share the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: wasmtime::Engine,
    options: EngineOptions,
    /// The folder of the cache of compiled components. `None` without a cache.
    compiled: Option<PathBuf>,
    long_calls: Arc<LongCalls>,
}

impl Engine {
    /// Starts an engine, and the thread that advances its epochs. The engine is compact if the
    /// machine does not grant the address space of a pool.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn new(options: EngineOptions) -> Result<Self> {
        // Some machines do not grant the address space of a pool, for example under `ulimit -v`.
        let compact = || wasmtime::Engine::new(&config(&options, AddressSpace::Compact));
        let inner = match options.address_space {
            AddressSpace::Compact => compact(),
            pool => wasmtime::Engine::new(&config(&options, pool)).or_else(|_| compact()),
        };
        let inner = inner.map_err(|error| Error::Engine(format!("{error:#}")))?;
        let weak = inner.weak();
        std::thread::Builder::new()
            .name("epochs".to_owned())
            .spawn(move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::sleep(EPOCH_TICK);
                }
            })
            .map_err(|error| Error::Engine(error.to_string()))?;
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let compiled = options.compiled.clone().filter(|folder| compiled::open_folder(folder));
        Ok(Self { inner, options, compiled, long_calls: LongCalls::new(processors) })
    }
}

impl Engine {
    /// Compiles a component, or loads it from the cache.
    ///
    /// # Errors
    /// [`Error::Load`] if the bytes are not a component.
    pub fn compile(&self, bytes: &[u8]) -> Result<wasmtime::component::Component> {
        self.compile_with_digest(&ComponentBytes::Shared(bytes.into()), &digest(bytes))
    }

    /// Compiles a component that is embedded in the program, or loads it from the cache.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub fn compile_embedded(
        &self,
        component: EmbeddedComponent,
    ) -> Result<wasmtime::component::Component> {
        self.compile_with_digest(&ComponentBytes::Embedded(component), component.digest())
    }

    fn compile_with_digest(
        &self,
        bytes: &ComponentBytes,
        digest: &str,
    ) -> Result<wasmtime::component::Component> {
        compiled::component(&self.inner, self.compiled.as_deref(), bytes, digest)
            .map_err(|error| Error::Load(format!("{error:#}")))
    }

    /// Returns the wasmtime engine, for other components that run under the same limits.
    #[must_use]
    pub fn wasmtime(&self) -> &wasmtime::Engine {
        &self.inner
    }
}

fn config(options: &EngineOptions, address_space: AddressSpace) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).concurrency_support(false);
    if address_space == AddressSpace::Compact {
        // A memory starts with what the component declares. It moves when it outgrows its
        // reservation, which is copied: large steps keep that rare.
        config
            .memory_reservation(0)
            .memory_reservation_for_growth(GROWTH_RESERVATION)
            .memory_guard_size(GUARD_BYTES);
    } else {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(options.max_calls)
            // A component has its own module and a few that `wit-component` adds for linking.
            .total_core_instances(options.max_calls * 8)
            .total_memories(options.max_calls)
            .total_tables(options.max_calls * 4)
            // Calls are synchronous and need no stack of their own. The default reserves 2 GB.
            .total_stacks(1)
            .max_memory_size(options.max_memory)
            // Resident pages are zeroed for the next call, which is cheaper than new page faults.
            // pagemap_scan finds the pages that were written.
            .linear_memory_keep_resident(4 << 20)
            .table_keep_resident(1 << 16)
            .pagemap_scan(Enabled::Auto)
            .max_unused_warm_slots(8);
        if address_space == AddressSpace::Bounded {
            // The bound is a constant in the code, because memories never move and all reservations
            // are equal. Comparing with it is cheaper than with the size of the memory.
            let reservation = u64::try_from(options.max_memory).unwrap_or(u64::MAX);
            config.memory_reservation(reservation).memory_may_move(false);
        }
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

impl Default for CallContext {
    /// Returns the context of an unknown caller. All names are empty, and optional members are
    /// `None`.
    fn default() -> Self {
        Self {
            principal: String::new(),
            session: String::new(),
            request_id: String::new(),
            upstream: String::new(),
            protocol_version: String::new(),
            client_name: None,
            catalog_version: None,
            store_unavailable: false,
            only_count: false,
            lists_tools: None,
            full_list: false,
            options: Vec::new(),
        }
    }
}

impl Default for Decision {
    /// Returns the decision to send an empty answer unchanged.
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            mode: "full".to_owned(),
            loss: LossClass::None,
            estimated_tokens: 0,
            response_bytes: 0,
            original_tokens: 0,
            original_tokens_sampled: false,
            original_bytes: 0,
            budget: 0,
            item_count: None,
            pagination_used: false,
            summarization_used: false,
            chunking_used: false,
            read_only: false,
            response_mode: None,
            revision: None,
            cache: None,
            unshaped: false,
            snapshots: Vec::new(),
            continues: None,
            cursor_error: None,
            options: Vec::new(),
        }
    }
}

impl CacheTier {
    /// Returns the cache tier of an answer, by the response mode of its call.
    #[must_use]
    pub fn of_answer(decision: &Decision) -> Self {
        match decision.response_mode {
            Some(ResponseMode::IdsOnly | ResponseMode::Metadata) => Self::Metadata,
            Some(ResponseMode::Preview) => Self::Preview,
            _ => Self::Full,
        }
    }

    /// Returns the name of the cache tier in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Preview => "preview",
            Self::Full => "full",
        }
    }
}
