//! The guard as a gRPC service for other gateways, which own the connections to clients and
//! upstreams.
//!
//! - [`agentgateway`]: agentgateway's `ext_mcp`.
//! - [`body_memory`]: the memory for bodies from Envoy.
//! - [`collected_body`]: bodies from Envoy until they are complete.
//! - [`envoy`]: Envoy's `ext_proc`. [`envoy_exchange`] has the state of one HTTP request.
//! - [`messages`]: the guard, with the records of telemetry.
//! - [`pending_results`]: requests of agentgateway whose results are pending.
//! - [`server`]: HTTP/2 connections of other gateways.
//! - [`transfers`]: how Envoy sends bodies.

mod agentgateway;
mod body_memory;
mod collected_body;
mod envoy;
mod envoy_exchange;
mod envoy_replies;
mod messages;
mod pending_results;
mod server;
mod transfers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use context_guard_grpc::ext_mcp::ext_mcp_server::ExtMcpServer;
use context_guard_grpc::ext_proc::external_processor_server::ExternalProcessorServer;
use tracing::info;

use crate::front::certificates::Certificates;
use crate::front::connections::ClientConnections;
use crate::front::descriptors::max_connections;
use crate::front::listener;
use crate::serve::Gateway;
use crate::{Error, Result};
use agentgateway::AgentgatewayPolicy;
use envoy::EnvoyProcessor;
use messages::ExternalGuard;
use server::GrpcListener;

/// The maximum size, in bytes, of the parts of a gRPC message other than the body that it carries.
const MESSAGE_OVERHEAD: usize = 1 << 20;

/// The gRPC interface through which another gateway calls the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalService {
    /// The service `envoy.service.ext_proc.v3.ExternalProcessor` of Envoy.
    Envoy,
    /// The service `agentgateway.dev.ext_mcp.ExtMcp` of agentgateway.
    Agentgateway,
}

impl ExternalService {
    /// Returns the name of the interface.
    #[must_use]
    pub fn interface(self) -> &'static str {
        match self {
            Self::Envoy => "envoy.service.ext_proc.v3.ExternalProcessor",
            Self::Agentgateway => "agentgateway.dev.ext_mcp.ExtMcp",
        }
    }
}

impl Gateway {
    /// Serves another gateway until `stop` resolves, and then until the exchanges in flight have
    /// ended or the time of the drain has passed. `ready` is called with the addresses of the
    /// service and of the admin endpoint, if there is one.
    ///
    /// # Errors
    /// [`Error::Setup`] if an address cannot be bound, or the system provides no random numbers.
    /// [`Error::Config`] if a file of `tls` is invalid.
    pub async fn run_external(
        self: &Arc<Self>,
        service: ExternalService,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(SocketAddr, Option<SocketAddr>),
    ) -> Result<()> {
        let external = self.config.external.clone().unwrap_or_default();
        let tls = self.config.tls.as_ref();
        let tls = tls.map(|tls| Certificates::load(tls, &self.config.folder)).transpose()?;
        let listener = listener::bind(&external.listen).await?;
        let address = listener.local_addr()?;
        let (admin_address, admin_server) = self.start_admin().await?;
        let background = (self.spawn_background(), self.spawn_watchers());
        let max = max_connections(&self.config);
        let listener = GrpcListener {
            socket: listener,
            tls: tls.as_ref().map(Certificates::acceptor),
            connections: ClientConnections::new("limits.connections", max, max),
            timeouts: self.config.timeouts.clone(),
            recorder: Arc::clone(&self.recorder),
        };
        let certificates = tls.map(|tls| tokio::spawn(tls.watch()));
        let drain = Duration::from_secs(self.config.limits.drain_seconds);
        ready(address, admin_address);
        let stopping = async {
            stop.await;
            info!("stopping: requests in flight have {} s to finish", drain.as_secs());
            self.closing.cancel();
        };
        let guard = ExternalGuard::new(Arc::clone(&self.filter), Arc::clone(&self.recorder));
        let guard = Arc::new(guard);
        let settings = external.settings();
        let max_bytes = external.max_body.max(external.max_buffered) + MESSAGE_OVERHEAD;
        match service {
            ExternalService::Envoy => {
                let processor = EnvoyProcessor::new(guard, settings, &self.config.timeouts);
                let server = ExternalProcessorServer::new(processor);
                let server = server.max_decoding_message_size(max_bytes);
                listener.serve(server, stopping, drain).await;
            }
            ExternalService::Agentgateway => {
                let mut instance = [0; 8];
                getrandom::fill(&mut instance).map_err(|error| Error::Setup(error.to_string()))?;
                let instance = format!("{:x}", u64::from_le_bytes(instance));
                let policy = AgentgatewayPolicy::new(guard, settings, instance);
                let server = ExtMcpServer::new(policy).max_decoding_message_size(max_bytes);
                listener.serve(server, stopping, drain).await;
            }
        }
        self.stopped.cancel();
        self.flush_history().await;
        drop(background);
        if let Some(certificates) = certificates {
            certificates.abort();
        }
        if let Some(admin) = admin_server {
            admin.await.map_err(|error| Error::Setup(error.to_string()))?;
        }
        Ok(())
    }
}
