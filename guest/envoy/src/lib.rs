//! The core as a filter of Envoy, for MCP over Streamable HTTP and for plain JSON APIs.
//!
//! Callbacks and nothing else: what lies between HTTP and messages is `context-guard-protocol`, all shaping is the core.
//!
//! - [`config`]: what stands in the configuration of the filter, checked before it is taken.
//! - [`stream`]: an exchange. Bodies are copied out of Envoy's buffers chunk by chunk, so that these stay empty; a body that is put back is never longer than one
//!   that Envoy has held already.
//! - [`guard`]: the loop round the store.
//! - [`store`]: shared data of all workers, in slots, since nothing in it can be removed and nothing expires.
//! - [`metrics`]: Envoy stats.

mod config;
mod guard;
mod metrics;
mod store;
mod stream;

use std::rc::Rc;

use log::error;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{ContextType, LogLevel};

use config::Config;
use guard::Shared;
use stream::Stream;

#[allow(unsafe_code, missing_docs, reason = "the entry point of a module of proxy-wasm")]
mod entry {
    use super::{LogLevel, Root, RootContext};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|_| -> Box<dyn RootContext> { Box::new(Root::default()) });
    }}
}

/// What all exchanges of a worker share.
#[derive(Default)]
struct Root {
    shared: Option<Rc<Shared>>,
}

impl Context for Root {}

impl RootContext for Root {
    /// A configuration that is refused leaves the one before it in use.
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = if size == 0 { None } else { self.get_plugin_configuration() };
        match Config::read(bytes.as_deref().unwrap_or_default()).and_then(Shared::new) {
            Ok(shared) => {
                self.shared = Some(Rc::new(shared));
                true
            }
            Err(faults) => {
                for fault in faults {
                    error!("context-guard: the configuration is refused: {fault}");
                }
                false
            }
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(Rc::clone(self.shared.as_ref()?))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
