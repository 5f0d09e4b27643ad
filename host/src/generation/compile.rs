//! Compiling beside the path of requests: on one thread that gives way to all others.

use std::sync::{Arc, OnceLock};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::engine::{Component, Engine};
use crate::{Error, Result};

/// The thread. What compiles in parallel does so within it.
fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<Result<ThreadPool, String>> = OnceLock::new();
    let made = POOL.get_or_init(|| {
        ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "compile".to_owned())
            .start_handler(|_| give_way())
            .build()
            .map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| Error::Engine(error.clone()))
}

/// Requests come first. Where the system does not grant it, compiling takes its share.
fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Compiles a component, and checks that it fits the world.
pub(super) fn compile(engine: &Engine, bytes: &[u8]) -> Result<Arc<Component>> {
    pool()?.install(|| Component::load(engine, bytes)).map(Arc::new)
}
