//! The guard as an Envoy filter, for MCP over Streamable HTTP and for plain JSON APIs.
//!
//! This crate contains proxy-wasm callbacks only. `context-guard-protocol` makes the decisions
//! about HTTP and messages, and the core shapes answers.
//!
//! - [`config`]: the configuration of the filter, validated as a whole.
//! - [`stream`]: an exchange. It moves bodies out of Envoy's buffers chunk by chunk, and never puts
//!   back more than a buffer holds.
//! - [`stream::waiting`]: exchanges that wait for the store of a gateway.
//! - [`envoy_message`]: heads and bodies in Envoy's buffers.
//! - [`guard`]: the core as a message filter, with its cursor store.
//! - [`pause_monitor`]: detects a listener that withholds bodies from the filter.
//! - [`resumption`]: event streams that the client resumes.
//! - [`store`]: the cursor store in Envoy's shared data.
//! - [`gateway_store`]: the cursor store of a gateway, which several Envoys share.
//! - [`guard::store_pass`]: the store as one run of the core sees it, which may have to wait.
//! - [`metrics`]: Envoy statistics.

mod config;
mod envoy_message;
mod gateway_store;
mod guard;
mod metrics;
mod pause_monitor;
mod resumption;
mod store;
mod stream;

use std::rc::Rc;

use log::error;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{ContextType, LogLevel};

use config::Config;
use guard::Shared;
use stream::Stream;

#[allow(unsafe_code, missing_docs, reason = "the entry point of a proxy-wasm module")]
mod entry {
    use super::{LogLevel, Root, RootContext};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|_| -> Box<dyn RootContext> { Box::new(Root::default()) });
    }}
}

/// The proxy-wasm root context of an Envoy worker, with the current configuration.
#[derive(Default)]
struct Root {
    shared: Option<Rc<Shared>>,
}

impl Context for Root {}

impl RootContext for Root {
    /// Applies a new configuration of the filter. Returns false if it is invalid. The previous one
    /// then remains in use.
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = if size == 0 { None } else { self.get_plugin_configuration() };
        match Config::read(bytes.as_deref().unwrap_or_default()).and_then(Shared::new) {
            Ok(shared) => {
                self.shared = Some(Rc::new(shared));
                true
            }
            Err(faults) => {
                for fault in faults {
                    error!("context-guard: invalid configuration: {fault}");
                }
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(shared) = &self.shared {
            shared.pause_monitor.on_tick();
        }
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(Rc::clone(self.shared.as_ref()?), context)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
