//! The time limits of client connections.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// The time limits of client connections and of requests that arrive slowly.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Timeouts {
    /// Seconds until the head of a request is complete: from the connection, with its TLS
    /// handshake, or from the first byte of a further request.
    #[schemars(range(min = 1))]
    pub head_seconds: u64,
    /// Seconds until the next part of a request body; then the request is refused with 408.
    #[schemars(range(min = 1))]
    pub body_part_seconds: u64,
    /// Seconds until a request body is complete; then the request is refused with 408.
    #[schemars(range(min = 1))]
    pub body_seconds: u64,
    /// Seconds after which a connection is closed that has no requests, or whose client accepts
    /// nothing of a response.
    #[schemars(range(min = 1))]
    pub idle_seconds: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { head_seconds: 10, body_part_seconds: 30, body_seconds: 120, idle_seconds: 75 }
    }
}

impl Timeouts {
    /// Returns the maximum time until the head of a request is complete.
    #[must_use]
    pub fn head(&self) -> Duration {
        Duration::from_secs(self.head_seconds)
    }

    /// Returns the maximum time between two parts of a request body.
    #[must_use]
    pub fn body_part(&self) -> Duration {
        Duration::from_secs(self.body_part_seconds)
    }

    /// Returns the maximum time until a request body is complete.
    #[must_use]
    pub fn body(&self) -> Duration {
        Duration::from_secs(self.body_seconds)
    }

    /// Returns the maximum time for which a connection has no request, or its client accepts no
    /// bytes of a response.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }
}
