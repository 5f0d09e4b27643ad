//! An aggregator over shell scripts, for unit tests.

use std::sync::Arc;

use http::HeaderMap;
use tokio_util::sync::CancellationToken;

use super::Aggregator;
use super::client::Client;
use crate::admission::Admission;
use crate::config::{Config, Isolation, Upstream};
use crate::engine::{Component, Engine, EngineOptions, HostServices};
use crate::filter::Filter;
use crate::fleet::OwnerTag;
use crate::protocol_mode::ClientInfo;
use crate::store::NoStore;
use crate::store::clock::SystemClock;
use crate::telemetry::Recorder;
use crate::upstream::processes::Processes;
use crate::upstream::server::UpstreamServer;

/// A stateful server that lists the tool named by its first argument.
const SERVER: &str = r#"
    id=0
    while read -r line; do
        case "$line" in *'"id"'*) ;; *) continue ;; esac
        id=$((id + 1))
        case "$line" in
        *'"tools/list"'*) result='{"tools":[{"name":"'$0'","inputSchema":{"type":"object"}}]}' ;;
        *) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
        esac
        echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
    done"#;

/// Returns an upstream that lists the tool `tool`.
pub(super) fn upstream(name: &str, tool: &str, isolation: Isolation) -> Upstream {
    Upstream {
        name: name.to_owned(),
        command: ["sh", "-c", SERVER, tool].map(str::to_owned).to_vec(),
        isolation,
        ..Upstream::default()
    }
}

/// Returns a client of the aggregator without a session.
pub(super) fn client(principal: &str) -> Client {
    let admission = Admission::of_principal(principal);
    Client::stateless(&admission, ClientInfo::gateway(), &HeaderMap::new())
}

/// Returns an aggregator of upstreams with the processes that it may start. The guard is a
/// component whose handlers of messages run `guard`, in the text format of WebAssembly.
pub(super) fn aggregator(
    upstreams: Vec<Upstream>,
    max_processes: usize,
    guard: &str,
) -> (Arc<Aggregator>, Arc<Processes>) {
    aggregator_with(upstreams, max_processes, guard, "")
}

/// As [`aggregator`], with a policy in JSON.
pub(super) fn aggregator_with(
    upstreams: Vec<Upstream>,
    max_processes: usize,
    guard: &str,
    policy: &str,
) -> (Arc<Aggregator>, Arc<Processes>) {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let component = context_guard_test_stub::component_that(guard).unwrap();
    let component = Arc::new(Component::load(&engine, &component).unwrap());
    let services = HostServices { store: Arc::new(NoStore), clock: Arc::new(SystemClock) };
    let filter = Arc::new(Filter::new(component, services, policy, Vec::new()).unwrap());
    let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
    let processes = Processes::new(max_processes, max_processes);
    let config = Config { upstreams, ..Config::default() };
    let servers = config.upstreams.iter().map(|upstream| {
        let (folder, max_bytes) = (std::env::temp_dir(), config.limits.response_bytes);
        let (processes, recorder) = (Arc::clone(&processes), Arc::clone(&recorder));
        let upstream = upstream.clone();
        Arc::new(UpstreamServer::new(upstream, folder, None, max_bytes, processes, recorder))
    });
    let aggregator = Aggregator::new(
        &config,
        servers.collect(),
        filter,
        recorder,
        None,
        CancellationToken::new(),
        OwnerTag::default(),
    );
    (Arc::new(aggregator), processes)
}
