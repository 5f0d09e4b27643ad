//! Work beside the path of requests, such as compiling: on one thread that gives way to all others.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result};

/// The thread. What compiles in parallel does so within it.
fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<Result<ThreadPool, String>> = OnceLock::new();
    let made = POOL.get_or_init(|| {
        ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "background".to_owned())
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

/// Does work there.
///
/// # Errors
/// [`Error::Engine`] if the thread cannot be started; otherwise those of `work`.
pub fn run<T: Send, E: From<Error> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    pool()?.install(work)
}

/// Does work there, some time.
pub fn spawn(work: impl FnOnce() + Send + 'static) {
    if let Ok(pool) = pool() {
        pool.spawn(work);
    }
}
