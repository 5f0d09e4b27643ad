//! Probes of upstreams that are not known to be available, so that the log and `/readyz` report
//! faults before the first client meets them.
//!
//! A probe starts no process and sends no request: it looks for the program, or connects to the
//! address.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Uri;
use tokio::net::TcpStream;

use crate::serve::Gateway;
use crate::upstream::http_upstream::HttpUpstream;
use crate::upstream::server::UpstreamServer;

/// The time between two probes of an upstream.
const INTERVAL: Duration = Duration::from_secs(15);
/// The maximum time of one probe.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Probes the upstreams of a gateway periodically. Runs until its task is dropped.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    loop {
        let servers = gateway.aggregator.servers().iter();
        let apis = gateway.rest.iter().map(|api| api.upstream());
        let servers = servers.map(|server| probe(server)).collect::<Vec<_>>();
        let apis = apis.map(connect).collect::<Vec<_>>();
        tokio::join!(join_all(servers), join_all(apis));
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn probe(server: &UpstreamServer) {
    match &server.http {
        Some(http) => connect(http).await,
        None => server.circuit.probed(find_program(server)),
    }
}

fn find_program(server: &UpstreamServer) -> Result<(), String> {
    let Some(program) = server.config.command.first() else { return Ok(()) };
    let path = match server.config.env.get("PATH") {
        Some(path) => Some(path.expose().into()),
        None => std::env::var_os("PATH"),
    };
    let folder = server.config.cwd.as_ref().map(|cwd| server.folder.join(cwd));
    let folder = folder.as_deref().unwrap_or(Path::new("."));
    match which::which_in(program, path, folder) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("its program cannot be found: {program}")),
    }
}

async fn connect(http: &HttpUpstream) {
    if !http.circuit.availability.is_up() {
        http.circuit.probed(connect_to(http.url()).await);
    }
}

async fn connect_to(url: &Uri) -> Result<(), String> {
    let Some(host) = url.host() else { return Ok(()) };
    let host = host.trim_matches(['[', ']']);
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    let failed = |reason: String| format!("{host}:{port} cannot be reached: {reason}");
    match tokio::time::timeout(TIMEOUT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("no connection within {} s", TIMEOUT.as_secs()))),
    }
}
