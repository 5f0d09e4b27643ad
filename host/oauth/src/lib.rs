//! The OAuth client of the gateway: logs in at the authorization servers of upstreams, stores
//! tokens encrypted, and refreshes them for each principal.

#![forbid(unsafe_code)]

mod authorization_server;
mod browser;
mod challenge;
mod cipher;
mod code_flow;
mod device_flow;
mod discovery;
mod error;
mod exchange;
mod fetch;
mod login;
mod login_options;
mod reach;
mod redirect;
mod registration;
mod store;
mod stored_token;
mod upstream_tokens;

use context_guard_config as config;

pub use challenge::Challenge;
pub use error::{Error, Result};
pub use login::{LoginReport, login};
pub use login_options::{LoginOptions, Progress};
pub use store::{TokenStore, remove_token};
pub use upstream_tokens::{TokenError, UpstreamTokens, login_command};

/// The environment variable with the key that encrypts stored tokens.
pub const KEY_VARIABLE: &str = "CONTEXT_GUARD_TOKEN_KEY";
