//! Probes an HTTP upstream while its circuit is open.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::{HttpUpstream, is_unreachable};

/// The pause between two probes of an upstream whose circuit is open.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time of one probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Probes an upstream while its circuit is open. The circuit therefore closes soon after the
/// upstream recovers, and no client's call is needed as a trial.
pub(super) async fn run(http: Weak<HttpUpstream>) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let Some(http) = http.upgrade().filter(|http| http.circuit.is_open()) else { return };
        if http.is_reachable().await {
            http.circuit.reached();
        }
    }
}

impl HttpUpstream {
    /// Returns true if the upstream, or a server behind its proxy, answers a HEAD request with any
    /// status. Most MCP servers answer 405.
    async fn is_reachable(&self) -> bool {
        let headers = HeaderMap::new();
        let Ok(target) = self.target(None) else { return false };
        let sent = self.transmit(Method::HEAD, target, &headers, Bytes::new(), None);
        let answered = tokio::time::timeout(PROBE_TIMEOUT, sent).await;
        matches!(answered, Ok(Ok(response)) if !is_unreachable(response.status()))
    }
}
