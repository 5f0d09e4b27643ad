//! `context-guard ext-proc` and `context-guard ext-mcp`: the guard as a gRPC service for another
//! gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use context_guard::config::{self, Config, Policy};
use context_guard::gateway::ExternalService;
use tracing::info;

use super::HistoryOption;
use super::log::LogFormat;
use super::runtime::GatewayFiles;
use super::serve::{self, Front, GatewayParts};

const EXT_PROC_HELP: &str = "\
Without options, it listens on 127.0.0.1:8811 with the default policy. In Envoy's http_filters, before the router:

  - name: envoy.filters.http.ext_proc
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
      grpc_service: {envoy_grpc: {cluster_name: context-guard}}
      allow_mode_override: true        # the guard asks for the bodies of MCP only
      message_timeout: 10s
      failure_mode_allow: false        # true passes answers unguarded if the guard does not run

The cluster `context-guard` speaks HTTP/2 to the listen address. examples/envoy/ext-proc.yaml is a whole configuration.
A gateway file sets policy, store, keys, admin endpoint and more:

  external: {listen: '127.0.0.1:8811', mcp: [/mcp]}
  policy: policy.yaml
  signingKeys: ['${env:CONTEXT_GUARD_KEY}']
  admin: {listen: '127.0.0.1:8809'}";

/// Guard the MCP traffic of an Envoy, as its external processor (ext_proc).
#[derive(Args)]
#[command(after_help = EXT_PROC_HELP)]
pub(crate) struct ExtProc {
    #[command(flatten)]
    pub(crate) options: ExternalOptions,
}

impl ExtProc {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.options.run(ExternalService::Envoy)
    }
}

const EXT_MCP_HELP: &str = "\
Without options, it listens on 127.0.0.1:8811 with the default policy. In agentgateway, as a policy of the MCP backend:

  mcpGuardrails:
    processors:
    - kind: remote
      host: 127.0.0.1:8811
      failureMode: failOpen
      methods: {tools/call: full, tools/list: response, prompts/get: full, resources/read: full}
      metadata:
        contextGuard: mcpGuardrails.contextGuard
        principal: jwt.sub

`contextGuard` returns the ticket of a request with its result. Without it, results are shaped without the rules of their tool.
A request of the guard's own tool context_guard_read is answered as an error whose message is the text: the interface has no results for requests.
Where agentgateway speaks HTTP to one MCP server, `ext-proc` has no such limit.";

/// Guard the MCP traffic of an agentgateway, as its policy server (ext_mcp).
#[derive(Args)]
#[command(after_help = EXT_MCP_HELP)]
pub(crate) struct ExtMcp {
    #[command(flatten)]
    pub(crate) options: ExternalOptions,
}

impl ExtMcp {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.options.run(ExternalService::Agentgateway)
    }
}

/// The options of the commands that serve another gateway.
#[derive(Args)]
pub(crate) struct ExternalOptions {
    /// The gateway file, with `external` instead of `upstreams`: .yaml, .json or .toml.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy, instead of a gateway file. The default policy allows 4000 tokens per answer.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    policy: Option<PathBuf>,
    /// The listen address, instead of the one in the file.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The guard component, instead of the embedded one.
    #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
    component: Option<PathBuf>,
    #[command(flatten)]
    history: HistoryOption,
    /// The format of the log on standard error: `text`, or `json` for one object per line.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
}

impl ExternalOptions {
    fn run(self, service: ExternalService) -> Result<ExitCode> {
        let mut config = match &self.config {
            Some(file) => config::read(file)?,
            None => Config::default(),
        };
        if let Some(policy) = &self.policy {
            // A relative path starts from the working folder.
            config.policy = Some(Policy::File(std::path::absolute(policy)?));
        }
        // The other gateway calls the upstreams.
        config.upstreams.clear();
        let external = config.external.get_or_insert_default();
        if let Some(listen) = self.listen {
            external.listen = listen.to_string();
        }
        if self.history.no_history {
            config.history = None;
        }
        let has_tls = config.admin.as_ref().is_some_and(|admin| admin.tls.is_some());
        let scheme = if has_tls { "https" } else { "http" };
        let files = GatewayFiles { config: self.config, component: self.component, bundle: None };
        let parts = GatewayParts::build(config, files, Front::Http)?;
        serve::run_until_stopped(async {
            let gateway = parts.start()?;
            gateway
                .run_external(service, serve::stopped(), |address, admin| {
                    info!("Serving {} at {address}.", service.interface());
                    if let Some(admin) = admin {
                        info!("Health, metrics and telemetry at {scheme}://{admin}");
                    }
                })
                .await?;
            Ok(())
        })
    }
}
