//! A background thread of lower priority for long-running work such as compilation.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result};

/// Returns the thread pool for background work. Its only thread also performs parallel compilation.
fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<Result<ThreadPool, String>> = OnceLock::new();
    let made = POOL.get_or_init(|| {
        ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "background".to_owned())
            .start_handler(|_| lower_priority())
            .build()
            .map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| Error::Engine(error.clone()))
}

/// Lowers the priority of the calling thread, so that request threads take precedence. Has no
/// effect if the operating system refuses.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 5);
}

/// Runs work on the background thread, and waits for its result.
///
/// # Errors
/// [`Error::Engine`] if the thread cannot start. Otherwise the errors of `work`.
pub fn run<T: Send, E: From<Error> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    pool()?.install(work)
}

/// Runs work on the background thread without waiting for it. Drops the work if the thread cannot
/// start.
pub fn spawn(work: impl FnOnce() + Send + 'static) {
    if let Ok(pool) = pool() {
        pool.spawn(work);
    }
}
