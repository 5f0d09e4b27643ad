//! `context-guard serve`: runs the gateway.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, Weak};

use anyhow::{Result, bail};
use clap::Args;
use context_guard::cache::Cache;
use context_guard::clock::SystemClock;
use context_guard::config::{self, Config};
use context_guard::engine::{AddressSpace, EngineOptions, HostServices};
use context_guard::filter::FilterOptions;
use context_guard::gateway::Gateway;
use context_guard::recording::Recording;
use context_guard::revision::{self, Layout, Revisions, Sources};
use context_guard::sampler::Sampler;
use context_guard::{Clock, Filter};
use tracing::{info, warn};

use super::HistoryOption;
use super::bundle_follower::BundleFollower;
use super::log::LogFormat;
use super::runtime::{self, GatewayFiles};

const AFTER_HELP: &str = "\
A small gateway.yaml:

  upstreams:
    - name: files
      command: [npx, -y, '@modelcontextprotocol/server-filesystem', /data]
    - name: search
      url: https://search.example/mcp

Clients connect to http://127.0.0.1:8808/mcp and see the tools files__read_file, search__query and so on.
`context-guard config import FILE` makes such a file from the configuration of a client, `context-guard config check FILE` lists every fault of one.
Members can be set by the environment: CONTEXT_GUARD__LIMITS__CONCURRENCY=64 sets limits.concurrency.";

/// Run the gateway: many MCP servers and JSON APIs behind one endpoint.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    /// The gateway file: .yaml, .json or .toml.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// The listen address, such as 127.0.0.1:8808, instead of the one in the file.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,
    /// The guard component, instead of the embedded one.
    #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
    component: Option<PathBuf>,
    #[command(flatten)]
    history: HistoryOption,
    /// The format of the log on standard error: `text`, or `json` for one object per line.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut config = read(&self.config)?;
        if let Some(listen) = self.listen {
            config.listen = listen.to_string();
        }
        if self.history.no_history {
            config.history = None;
        }
        let files =
            GatewayFiles { config: Some(self.config), component: self.component, bundle: None };
        let parts = GatewayParts::build(config, files, Front::Http)?;
        let config = &parts.config;
        let path = config.path.clone();
        let scheme = |uses_tls: bool| if uses_tls { "https" } else { "http" };
        let admin_scheme = scheme(config.admin.as_ref().is_some_and(|admin| admin.tls.is_some()));
        let scheme = scheme(config.tls.is_some());
        let names: Vec<String> =
            config.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
        run_until_stopped(async {
            let gateway = parts.start()?;
            gateway
                .run(stopped(), |address, admin| {
                    if self.log_format == LogFormat::Json {
                        let admin = admin.map(|admin| admin.to_string());
                        info!(
                            upstreams = names.join(", "),
                            url = format!("{scheme}://{address}{path}"),
                            admin = admin.as_deref(),
                            "serving"
                        );
                        return;
                    }
                    eprintln!(
                        "context-guard: serving {} at {scheme}://{address}{path}",
                        names.join(", ")
                    );
                    if let Some(admin) = admin {
                        let url = format!("{admin_scheme}://{admin}");
                        eprintln!("context-guard: health, metrics and telemetry at {url}");
                    }
                })
                .await?;
            Ok(())
        })
    }
}

/// Runs a network gateway on a new runtime until it is stopped.
pub(super) fn run_until_stopped(gateway: impl Future<Output = Result<()>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(gateway)?;
    info!("Stopped.");
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Reads a gateway file.
///
/// # Errors
/// The file is invalid, or no upstream in it is enabled.
pub(super) fn read(path: &Path) -> Result<Config> {
    let config = config::read(path)?;
    if config.upstreams.is_empty() {
        let reason = match config.disabled.is_empty() {
            true => "there are no upstreams: add one (`external` is for ext-proc and ext-mcp)",
            false => "every upstream is disabled: enable at least one",
        };
        bail!("{}: {reason}", path.display());
    }
    Ok(config)
}

/// The transport by which clients reach a gateway.
#[derive(Clone, Copy)]
pub(super) enum Front {
    /// Many clients, over HTTP.
    Http,
    /// The client that started the process.
    Stdio,
}

impl Front {
    fn address_space(self) -> AddressSpace {
        match self {
            Self::Http => AddressSpace::Pool,
            // Many upstreams may answer one client at once, so a pool would reserve as much as that
            // of `serve`. A process for each client must not.
            Self::Stdio => AddressSpace::Compact,
        }
    }
}

/// The parts of a gateway, before the async runtime starts.
pub(super) struct GatewayParts {
    pub(super) config: Config,
    filter: Filter,
    sampler: Option<Arc<Sampler>>,
    revisions: Arc<Revisions>,
    sources: Arc<Sources>,
    clock: Arc<dyn Clock>,
    /// The gateway, which receives changed alerts of its file. Unset until it runs.
    running: Arc<OnceLock<Weak<Gateway>>>,
    /// The file with the last lists of the upstreams. `None` if there is no folder for it.
    list_file: Option<PathBuf>,
    /// Deploys newer bundles. `None` if the gateway file configures no bundle.
    follower: Option<BundleFollower>,
}

impl GatewayParts {
    /// Loads the policy, the component, the keys and the store that a gateway file configures.
    pub(super) fn build(config: Config, mut files: GatewayFiles, front: Front) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = runtime::store(&config, &clock)?;
        let mut follower = BundleFollower::open(&config, files.config.as_deref(), &store)?;
        if let Some(follower) = &mut follower {
            follower.read_first()?;
            files.bundle = Some(follower.current());
        }
        let list_file = files.config.as_deref().and_then(runtime::list_file);
        let layout = files.layout_of(&config)?;
        let keys = layout.keys()?;
        if store.may_block() && keys.is_none() {
            warn!(
                "the store is shared but the signing key is random: set signingKeys, or other gateways will reject the cursors of this one"
            );
        }
        if config.fleet.is_some() && keys.is_none() {
            bail!(
                "the replicas of a fleet need common signing keys: set signingKeys to the same secret at all of them"
            );
        }
        let services = HostServices { store, clock: Arc::clone(&clock) };
        let keys = match (keys, front) {
            (None, Front::Stdio) => runtime::user_keys()?,
            (keys, _) => runtime::keys_or_random(keys)?,
        };
        let engine = || EngineOptions {
            address_space: front.address_space(),
            ..runtime::engine_options(&config.component)
        };
        let build = |layout: &Layout| {
            // Those of the bundle come first.
            let keys = layout.keys()?.unwrap_or_else(|| keys.clone());
            let services = services.clone();
            runtime::revisions(layout, engine(), services, keys, config.rollout.clone())
        };
        let revisions = match &mut follower {
            Some(follower) => {
                let secrets: Vec<&[u8]> = keys.iter().map(|key| key.secret.as_slice()).collect();
                services.store.rekey(&secrets);
                follower.compare_with_fleet()?;
                match build(&files.layout_of(&config)?) {
                    Err(error) => {
                        follower.use_last_deployed(&format!("{error:#}"))?;
                        build(&files.layout_of(&config)?)?
                    }
                    Ok(revisions) => revisions,
                }
            }
            None => build(&layout)?,
        };
        let cache = config.cache.clone().map(|options| {
            let is_shared = options.shared;
            let cache = Cache::new(options, Arc::clone(&clock));
            let store = Arc::clone(&revisions.services().store);
            Arc::new(if is_shared { cache.share(store) } else { cache })
        });
        let recording = match &config.recording {
            Some(options) => Recording::start(options, &config.folder, Arc::clone(&clock))?,
            None => None,
        };
        let sampler = Sampler::start(config.telemetry.sample)?;
        let options = FilterOptions { sampler: sampler.clone(), learn: false, cache, recording };
        let filter = Filter::with_options(Arc::clone(&revisions), options);
        let running = Arc::new(OnceLock::<Weak<Gateway>>::new());
        let watched = Arc::clone(&running);
        let given = config.clone();
        let sources = Arc::new(Sources::new(move || {
            let Some(file) = &files.config else { return files.layout_of(&given) };
            let config = config::read(file)?;
            if let Some(gateway) = watched.get().and_then(Weak::upgrade) {
                gateway.set_alerts(&config);
            }
            files.layout_of(&config)
        }));
        Ok(Self {
            config,
            filter,
            sampler,
            revisions,
            sources,
            clock,
            running,
            list_file,
            follower,
        })
    }

    /// Builds the gateway. Watches its files for changes, unless `watch` is false in the gateway
    /// file. Must be called within the async runtime.
    pub(super) fn start(self) -> Result<Arc<Gateway>> {
        let is_watched = self.config.watch;
        let sandbox = runtime::sandbox(&self.config, &self.revisions)?;
        let filter = Arc::new(self.filter);
        let fleet = self.config.fleet.clone();
        let gateway = Gateway::new(self.config, filter, self.clock, sandbox)?;
        let gateway = gateway.with_sources(Arc::clone(&self.sources));
        let gateway = match std::env::current_exe() {
            Ok(program) => gateway.with_sandbox_launcher(program),
            Err(_) => gateway,
        };
        let gateway = match self.list_file {
            Some(file) => gateway.with_list_file(file),
            None => gateway,
        };
        if let Some(sampler) = &self.sampler {
            gateway.record_samples(sampler);
        }
        let _ = self.running.set(Arc::downgrade(&gateway));
        revision::tick_regularly(&self.revisions)?;
        if is_watched {
            revision::watch(&self.revisions, Arc::clone(&self.sources))?;
        }
        let fleet = fleet.filter(|_| self.revisions.services().store.may_block());
        if let Some(fleet) = fleet {
            revision::join_fleet(&self.revisions, fleet.address.unwrap_or(fleet.listen))?;
        }
        if let Some(follower) = self.follower {
            follower.follow(&self.revisions, &self.sources)?;
        }
        reload_on_hangup(&self.revisions, &self.sources);
        Ok(gateway)
    }
}

/// Starts a task that reloads the files of `sources` when the process receives SIGHUP.
fn reload_on_hangup(revisions: &Arc<Revisions>, sources: &Arc<Sources>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (revisions, sources) = (Arc::clone(revisions), Arc::clone(sources));
        tokio::spawn(async move {
            let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
            while hangup.recv().await.is_some() {
                let (revisions, sources) = (Arc::clone(&revisions), Arc::clone(&sources));
                // The reload logs its own errors.
                let _ =
                    tokio::task::spawn_blocking(move || sources.reload_all(&revisions).map(drop))
                        .await;
            }
        });
    }
}

/// Waits until the process receives a signal that stops it.
pub(super) async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
