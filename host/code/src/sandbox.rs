//! The compiled sandbox, and runs of programs in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;

use context_guard_engine::{EmbeddedComponent, Engine, Error, Pace};
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Store, Trap};

use crate::bindings::CodePre;
use crate::bindings::context_guard::code::types::{Failure, FailureKind, Limits};
use crate::bindings::context_guard::code::{host, types};
use crate::error::{Excerpt, RunError};
use crate::imports::{ProgramHost, State};
use crate::limits::{MemoryLimit, RunLimits};
use crate::log::Log;

/// A compiled sandbox, which runs any number of programs.
pub struct Sandbox {
    engine: Engine,
    sandbox: CodePre<State>,
}

/// A program, and the data that it can access.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    /// The body of an asynchronous JavaScript function.
    pub source: &'p str,
    /// The value of the program's variable `input`, as JSON.
    pub input: &'p str,
    /// The value of the program's variable `cursors`.
    pub cursors: &'p [String],
    /// The owner of the run. Long runs alternate among owners.
    pub principal: &'p str,
    /// The time at which the run began, in milliseconds since 1970.
    pub started_ms: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The returned value as JSON, or the reason why there is none.
    pub value: Result<Vec<u8>, RunError>,
    /// The lines that the program logged.
    pub log: Log,
}

impl Sandbox {
    /// Compiles the sandbox in `bytes`, a component.
    ///
    /// # Errors
    /// [`Error::Load`] if the bytes are not a component or do not match this host.
    pub fn load(engine: &Engine, bytes: &[u8]) -> Result<Self, Error> {
        Self::link(engine, &engine.compile(bytes)?)
    }

    /// Compiles the sandbox that is embedded in the program.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub fn load_embedded(engine: &Engine, component: EmbeddedComponent) -> Result<Self, Error> {
        Self::link(engine, &engine.compile_embedded(component)?)
    }

    fn link(engine: &Engine, component: &Component) -> Result<Self, Error> {
        let load = |error: wasmtime::Error| Error::Load(format!("{error:#}"));
        let mut linker = Linker::<State>::new(engine.wasmtime());
        host::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(load)?;
        types::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(load)?;
        let linked = linker.instantiate_pre(component).map_err(load)?;
        Ok(Self { engine: engine.clone(), sandbox: CodePre::new(linked).map_err(load)? })
    }

    /// Runs a program in a new instance, on this thread, until it ends or `limits` end it.
    pub fn run(
        &self,
        program: Program<'_>,
        limits: &RunLimits,
        host: Box<dyn ProgramHost>,
    ) -> Outcome {
        let pace =
            Pace::until(&self.engine, program.principal, limits.deadline, limits.cancelled.clone());
        let state = State {
            host,
            pace,
            memory: MemoryLimit::new(limits.memory_bytes),
            log: Log::default(),
            log_bytes: limits.log_bytes,
            deadline: limits.deadline,
            cancelled: limits.cancelled.clone(),
        };
        let mut store = Store::new(self.engine.wasmtime(), state);
        store.limiter(|state| &mut state.memory);
        store.epoch_deadline_callback(|mut store| store.data_mut().pace.tick());
        store.set_epoch_deadline(1);
        let facts = Limits {
            started_ms: program.started_ms,
            seed: seed(program),
            value_bytes: limits.value_bytes,
        };
        let ran = self.sandbox.instantiate(&mut store).and_then(|sandbox| {
            sandbox.call_run(&mut store, program.source, program.input, program.cursors, facts)
        });
        let value = match ran {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failure)) => Err(failed(program, limits, failure, &store)),
            Err(error) => Err(ended(limits, &error, &store)),
        };
        Outcome { value, log: store.into_data().log }
    }
}

/// Returns the seed of random numbers, which is the same for equal programs with equal inputs.
fn seed(program: Program<'_>) -> u32 {
    let mut hasher = DefaultHasher::new();
    (program.source, program.input).hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}

/// Returns the error for a failure that the sandbox reported.
fn failed(
    program: Program<'_>,
    limits: &RunLimits,
    failure: Failure,
    store: &Store<State>,
) -> RunError {
    if store.data().memory.is_reached {
        return RunError::Memory(limits.memory_bytes >> 20);
    }
    let Failure { kind, message, line, column } = failure;
    match kind {
        FailureKind::Stuck => RunError::Stuck(message),
        FailureKind::Value => RunError::Value(message),
        FailureKind::Syntax => {
            RunError::Syntax(Excerpt::new(program.source, message, line, column))
        }
        FailureKind::Thrown => {
            RunError::Thrown(Excerpt::new(program.source, message, line, column))
        }
    }
}

/// Returns the error for a run that was interrupted or that trapped.
fn ended(limits: &RunLimits, error: &wasmtime::Error, store: &Store<State>) -> RunError {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) if store.data().cancelled.load(Ordering::Relaxed) => {
            RunError::Cancelled
        }
        Some(Trap::Interrupt) => RunError::Deadline,
        _ if store.data().memory.is_reached => RunError::Memory(limits.memory_bytes >> 20),
        // The stack of the engine lies at the start of the memory, so that an overflow leaves it.
        Some(Trap::StackOverflow | Trap::MemoryOutOfBounds) => RunError::Recursion,
        _ => RunError::Sandbox(error.root_cause().to_string()),
    }
}
