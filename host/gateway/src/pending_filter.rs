//! A filter that is loaded while a server starts.

use std::sync::{Arc, OnceLock};

use crate::filter::Filter;

/// A filter that may still be loading, so that a server can start before it is complete.
#[derive(Clone, Default)]
pub struct PendingFilter(Arc<OnceLock<Arc<Filter>>>);

impl PendingFilter {
    /// Sets the filter. Has no effect if it is already set.
    pub fn set(&self, filter: Arc<Filter>) {
        let _ = self.0.set(filter);
    }

    /// Returns the filter, or `None` if it is not loaded yet.
    pub(crate) fn get(&self) -> Option<&Filter> {
        self.0.get().map(Arc::as_ref)
    }

    /// Blocks until the filter is loaded, and returns it.
    pub(crate) fn wait(&self) -> &Filter {
        self.0.wait()
    }
}

impl From<Arc<Filter>> for PendingFilter {
    fn from(filter: Arc<Filter>) -> Self {
        Self(Arc::new(OnceLock::from(filter)))
    }
}
