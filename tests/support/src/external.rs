//! The guard as a service for other gateways: its processes, Envoy with `ext_proc`, and a client of
//! `ext_mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;

use anyhow::{Context, Result, anyhow};
use context_guard::Filter;
use context_guard::clock::ManualClock;
use context_guard::config::Config;
use context_guard::engine::{HostServices, SigningKey};
use context_guard::gateway::{ExternalService, Gateway};
use context_guard::store::CursorStore;
use context_guard_grpc::ext_mcp::ext_mcp_client::ExtMcpClient;
use context_guard_grpc::ext_mcp::{McpRequest, McpRequestResult, McpResponse, McpResponseResult};
use context_guard_grpc::tonic::body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::artifacts;
use crate::certificates::Certificate;
use crate::envoy::Envoy;
use crate::gateway::{Process, merge};
use crate::guards::{InspectableStore, NOW_MS, SIGNING_KEY, component};

/// The way in which Envoy sends bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Streams in both directions at once.
    FullDuplex,
    /// As the guard asks for them.
    OnDemand,
    /// Not at all: by mistake.
    Never,
}

/// A process of the guard that serves another gateway.
pub struct ExternalGuard {
    /// The running program `context-guard`.
    pub process: Process,
    /// The address of the gRPC service.
    pub address: SocketAddr,
    /// The URL of the admin endpoint.
    pub admin: String,
}

impl ExternalGuard {
    /// Starts `context-guard ext-proc` or `ext-mcp`. `more` overrides members of the gateway file.
    ///
    /// # Errors
    /// The process does not start.
    pub fn start(command: &str, more: Value) -> Result<Self> {
        let folder = Envoy::folder()?;
        let mut config = json!({
            "external": {"listen": "127.0.0.1:0"},
            "admin": {"listen": "127.0.0.1:0"},
            "signingKeys": [std::str::from_utf8(SIGNING_KEY)?],
        });
        merge(&mut config, more);
        let file = folder.join("gateway.json");
        std::fs::write(&file, config.to_string())?;
        let mut program = Command::new(artifacts::program()?);
        program.args([command, "--config"]).arg(&file);
        let process = Process::start(program, false, "telemetry at http://")?;
        let printed = process.output();
        let after = |mark: &str| {
            let rest = printed.split_once(mark).map_or("", |(_, rest)| rest);
            rest.split_whitespace().next().unwrap_or_default().trim_end_matches('.').to_owned()
        };
        let address = after(" at ").parse().with_context(|| printed.clone())?;
        let admin = after("telemetry at ");
        Ok(Self { process, address, admin })
    }
}

/// The guard in this process, for golden vectors: with their clock, and a store to read.
pub struct VectorGuard {
    /// The address of the gRPC service.
    pub address: SocketAddr,
    /// The store of the guard.
    pub store: Arc<InspectableStore>,
    stop: Option<oneshot::Sender<()>>,
}

impl Drop for VectorGuard {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl VectorGuard {
    /// Serves Envoy under a policy.
    ///
    /// # Errors
    /// The policy is invalid.
    pub fn start(policy: &Value) -> Result<Self> {
        let store = Arc::new(InspectableStore::default());
        let clock = Arc::new(ManualClock::at_ms(NOW_MS));
        let services = HostServices {
            store: Arc::clone(&store) as Arc<dyn CursorStore>,
            clock: Arc::clone(&clock) as _,
        };
        let keys = vec![SigningKey { id: String::new(), secret: SIGNING_KEY.to_vec() }];
        let filter = Filter::new(component()?, services, &policy.to_string(), keys)?;
        let config: Config = serde_json::from_value(json!({
            "external": {"listen": "127.0.0.1:0", "principal": "tester"},
        }))?;
        let (started, address) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        std::thread::spawn(move || -> Result<()> {
            let runtime = Runtime::new()?;
            runtime.block_on(async {
                let gateway = Gateway::new(config, Arc::new(filter), clock, None)?;
                let stopped = async { drop(stopped.await) };
                let ready = |address, _| {
                    let _ = started.send(address);
                };
                gateway.run_external(ExternalService::Envoy, stopped, ready).await?;
                anyhow::Ok(())
            })
        });
        let address = address.recv().map_err(|_| anyhow!("the guard does not start"))?;
        Ok(Self { address, store, stop: Some(stop) })
    }
}

/// A listener of Envoy with `ext_proc`, before an upstream.
pub struct ProcessedListener {
    /// The address of the upstream.
    pub upstream: SocketAddr,
    /// The address of the guard.
    pub guard: SocketAddr,
    /// The way in which Envoy sends bodies.
    pub bodies: Bodies,
    /// True if Envoy passes traffic unguarded when the guard fails.
    pub failure_mode_allow: bool,
    /// The name of the upstream in policy rules, as gRPC metadata. Empty for none.
    pub name: String,
    /// The authority of the guard's certificate, and that of Envoy. None for plain connections.
    pub tls: Option<(PathBuf, Certificate)>,
}

impl ProcessedListener {
    /// Creates a listener that refuses requests if the guard fails.
    #[must_use]
    pub fn new(upstream: SocketAddr, guard: SocketAddr, bodies: Bodies) -> Self {
        Self { upstream, guard, bodies, failure_mode_allow: false, name: String::new(), tls: None }
    }

    /// Returns the listener resource for Envoy, whose guard is the cluster `guard-{name}`.
    fn resource(&self, name: &str) -> Value {
        let mut service = json!({"envoy_grpc": {"cluster_name": format!("guard-{name}")}});
        if !self.name.is_empty() {
            service["initial_metadata"] =
                json!([{"key": "x-context-guard-upstream", "value": self.name}]);
        }
        let mut processor = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": service,
            "failure_mode_allow": self.failure_mode_allow,
        });
        match self.bodies {
            Bodies::FullDuplex => {
                processor["processing_mode"] = json!({
                    "request_body_mode": "FULL_DUPLEX_STREAMED",
                    "response_body_mode": "FULL_DUPLEX_STREAMED",
                    "request_trailer_mode": "SEND",
                    "response_trailer_mode": "SEND",
                });
            }
            Bodies::Never => {}
            Bodies::OnDemand => {
                processor["allow_mode_override"] = true.into();
                processor["message_timeout"] = "10s".into();
            }
        }
        let router = json!({"name": "envoy.filters.http.router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}});
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "stream_idle_timeout": "0s",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": name, "timeout": "0s"}}]}]},
            "http_filters": [{"name": "context-guard", "typed_config": processor}, router],
        });
        json!({
            "name": name,
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
            "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
        })
    }
}

/// Starts Envoy with these listeners.
///
/// # Errors
/// Envoy does not start.
pub fn envoy_with(listeners: &[ProcessedListener]) -> Result<Envoy> {
    let (mut resources, mut guards) = (Vec::new(), Vec::new());
    for (at, listener) in listeners.iter().enumerate() {
        let name = format!("listener-{at}");
        resources.push((listener.resource(&name), listener.upstream));
        let mut guard = Envoy::cluster(&format!("guard-{name}"), listener.guard);
        guard["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }});
        if let Some((authority, Certificate { cert, key })) = &listener.tls {
            let own =
                json!({"certificate_chain": {"filename": cert}, "private_key": {"filename": key}});
            guard["transport_socket"] = json!({"name": "envoy.transport_sockets.tls", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "sni": "localhost",
                "common_tls_context": {
                    "tls_certificates": [own],
                    "validation_context": {"trusted_ca": {"filename": authority}},
                },
            }});
        }
        guards.push(guard);
    }
    Envoy::start_with_clusters(Envoy::folder()?, &resources, guards, 2)
}

/// A client of `ext_mcp`, generated from the file that agentgateway publishes.
pub struct McpPolicyClient {
    runtime: Runtime,
    client: ExtMcpClient<Client<HttpConnector, Body>>,
}

impl McpPolicyClient {
    /// Creates a client of the service at an address.
    ///
    /// # Errors
    /// The runtime does not start.
    pub fn new(address: SocketAddr) -> Result<Self> {
        let runtime = Runtime::new()?;
        let http = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let origin = format!("http://{address}").parse()?;
        let client = ExtMcpClient::with_origin(http, origin);
        Ok(Self { runtime, client: client.max_decoding_message_size(64 << 20) })
    }

    /// Calls `CheckRequest`.
    ///
    /// # Errors
    /// The service fails.
    pub fn check_request(&mut self, request: McpRequest) -> Result<McpRequestResult> {
        Ok(self.runtime.block_on(self.client.check_request(request))?.into_inner())
    }

    /// Calls `CheckResponse`.
    ///
    /// # Errors
    /// The service fails.
    pub fn check_response(&mut self, response: McpResponse) -> Result<McpResponseResult> {
        Ok(self.runtime.block_on(self.client.check_response(response))?.into_inner())
    }
}
