//! A real Envoy with the filter.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::gateway::{Process, agent, merge};
use crate::wait::{wait_for, wait_until};
use crate::{artifacts, peers};

/// A listener with the filter, before an upstream.
pub struct Listener {
    /// The configuration of the filter. The signing key is that of the test kit by default.
    pub config: Value,
    /// The address of the upstream.
    pub upstream: SocketAddr,
    /// The name of the VM, which owns the shared data.
    pub vm_id: String,
    /// The module of the filter.
    pub filter: PathBuf,
    /// The value of `allow_on_headers_stop_iteration`. None leaves it out.
    pub stop_iteration: Option<bool>,
}

impl Listener {
    /// Creates a listener with the release filter before a server.
    ///
    /// # Errors
    /// The filter was not built.
    pub fn before(upstream: SocketAddr, config: Value) -> Result<Self> {
        let mut all = json!({"signingKeys": [std::str::from_utf8(crate::guards::SIGNING_KEY)?]});
        merge(&mut all, config);
        let filter = artifacts::dist("context-guard-envoy.wasm")?;
        let stop_iteration = Some(true);
        Ok(Self { config: all, upstream, vm_id: "guard".to_owned(), filter, stop_iteration })
    }

    /// Returns the listener resource for Envoy. `log` is the path of its access log.
    #[must_use]
    pub fn resource(&self, name: &str, log: &str) -> Value {
        let mut wasm = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": name,
                "failure_policy": "FAIL_RELOAD",
                "reload_config": {"backoff": {"base_interval": "0.1s"}},
                "vm_config": {
                    "vm_id": self.vm_id,
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": self.filter}},
                },
                "configuration": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": self.config.to_string()},
            },
        });
        if let Some(allow) = self.stop_iteration {
            wasm["config"]["allow_on_headers_stop_iteration"] = allow.into();
        }
        let router = json!({"name": "envoy.filters.http.router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}});
        let record = "%FILTER_STATE(wasm.context_guard:PLAIN)%\n";
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "stream_idle_timeout": "0s",
            "access_log": [{"name": "envoy.access_loggers.file", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": log,
                "log_format": {"text_format_source": {"inline_string": record}},
            }}],
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": name, "timeout": "0s"}}]}]},
            "http_filters": [{"name": "context-guard", "typed_config": wasm}, router],
        });
        json!({
            "name": name,
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
            "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
        })
    }
}

/// A running Envoy.
pub struct Envoy {
    /// The running program `envoy`.
    pub process: Process,
    folder: PathBuf,
    admin: String,
    names: Vec<String>,
}

impl Envoy {
    /// Starts Envoy with these listeners and number of workers.
    ///
    /// # Errors
    /// Envoy does not start.
    pub fn start(listeners: &[Listener], workers: usize) -> Result<Self> {
        Self::start_beside(listeners, Vec::new(), workers)
    }

    /// Starts Envoy with these listeners, and with clusters beside those of the listeners.
    ///
    /// # Errors
    /// Envoy does not start.
    pub fn start_beside(
        listeners: &[Listener],
        clusters: Vec<Value>,
        workers: usize,
    ) -> Result<Self> {
        let folder = Self::folder()?;
        let resources = listeners.iter().enumerate().map(|(at, listener)| {
            let name = format!("guard-{at}");
            let log = folder.join(format!("{name}.log")).display().to_string();
            (listener.resource(&name, &log), listener.upstream)
        });
        let resources: Vec<_> = resources.collect();
        Self::start_with_clusters(folder, &resources, clusters, workers)
    }

    /// Creates an empty folder for the files of an Envoy.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn folder() -> Result<PathBuf> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let last = LAST.fetch_add(1, Ordering::Relaxed);
        peers::folder(&format!("envoy-{}-{last}", std::process::id()))
    }

    /// Starts Envoy with these listener resources. Each has an upstream, as the cluster with the
    /// name of the listener.
    ///
    /// # Errors
    /// Envoy does not start.
    pub fn start_resources(
        folder: PathBuf,
        listeners: &[(Value, SocketAddr)],
        workers: usize,
    ) -> Result<Self> {
        Self::start_with_clusters(folder, listeners, Vec::new(), workers)
    }

    /// Returns a cluster with one endpoint.
    #[must_use]
    pub fn cluster(name: &str, address: SocketAddr) -> Value {
        let (ip, port) = (address.ip().to_string(), address.port());
        let endpoint = json!({"endpoint": {"address": {"socket_address": {"address": ip, "port_value": port}}}});
        json!({
            "name": name,
            "type": "STATIC",
            "connect_timeout": "5s",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        })
    }

    /// Starts Envoy with these listener resources, and with clusters beside those of the listeners.
    pub(crate) fn start_with_clusters(
        folder: PathBuf,
        listeners: &[(Value, SocketAddr)],
        mut clusters: Vec<Value>,
        workers: usize,
    ) -> Result<Self> {
        let name = |listener: &Value| listener["name"].as_str().map(str::to_owned);
        let names = listeners.iter().map(|(listener, _)| name(listener).context("no name"));
        let names = names.collect::<Result<Vec<_>>>()?;
        for ((_, upstream), name) in listeners.iter().zip(&names) {
            let mut cluster = Self::cluster(name, *upstream);
            // Half of the listener's limit, so that the data of one read fits into a stream that
            // is held back.
            cluster["per_connection_buffer_limit_bytes"] = (512 << 10).into();
            clusters.push(cluster);
        }
        let resources: Vec<&Value> = listeners.iter().map(|(listener, _)| listener).collect();
        let admin = folder.join("admin");
        // Each Envoy gets free ports, so that several run beside each other.
        let config = json!({
            "node": {"id": "test", "cluster": "test"},
            "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
            "static_resources": {"listeners": resources, "clusters": clusters},
        });
        let file = folder.join("envoy.json");
        std::fs::write(&file, config.to_string())?;
        let mut command = Command::new(artifacts::envoy()?);
        let key = std::str::from_utf8(crate::guards::SIGNING_KEY)?;
        command.env("CONTEXT_GUARD_SIGNING_KEYS", key);
        command.arg("-c").arg(&file).arg("--admin-address-path").arg(&admin);
        command.args([
            "--concurrency",
            &workers.to_string(),
            "--log-level",
            "info",
            "--base-id-path",
        ]);
        command.arg(folder.join("base-id")).arg("--use-dynamic-base-id");
        command.args(["--file-flush-interval-msec", "20", "--drain-time-s", "1"]);
        let process = Process::start(command, false, "starting main dispatch loop")?;
        let admin = format!("http://{}", std::fs::read_to_string(&admin)?.trim());
        let envoy = Self { process, folder, admin, names };
        wait_until("a ready Envoy", || {
            Ok(envoy.get_admin("/ready").is_ok_and(|(status, _)| status == 200))
        })
        .with_context(|| envoy.process.output())?;
        Ok(envoy)
    }

    /// Returns status and body of a path of the admin endpoint.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub fn get_admin(&self, path: &str) -> Result<(u16, String)> {
        let response = agent().get(format!("{}{path}", self.admin)).call()?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().read_to_string()?))
    }

    /// Returns the URL of a listener.
    ///
    /// # Errors
    /// The listener did not start.
    pub fn url(&self, at: usize) -> Result<String> {
        let (_, listeners) = self.get_admin("/listeners?format=json")?;
        let listeners: Value = serde_json::from_str(&listeners)?;
        let listeners = listeners["listener_statuses"].as_array().context("no listeners")?;
        let name = self.names.get(at).context("no such listener")?;
        let own = listeners.iter().find(|one| one["name"] == name.as_str());
        let port =
            &own.context("it did not start")?["local_address"]["socket_address"]["port_value"];
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Returns the sum of the stats whose name contains `name`.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub fn stat(&self, name: &str) -> Result<u64> {
        let (_, stats) = self.get_admin(&format!("/stats?filter={name}"))?;
        Ok(stats
            .lines()
            .filter_map(|line| line.split_once(": ")?.1.trim().parse::<u64>().ok())
            .sum())
    }

    /// Returns the records of the answers of a listener, as its access log has them. None for
    /// answers without one.
    ///
    /// # Errors
    /// There are not `count` lines in time.
    pub fn records(&self, at: usize, count: usize) -> Result<Vec<Option<Value>>> {
        let file =
            self.folder.join(format!("{}.log", self.names.get(at).context("no such listener")?));
        wait_for(&format!("{count} lines in {}", file.display()), || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let records = || lines.iter().map(|line| serde_json::from_str(line).ok()).collect();
            Ok((lines.len() >= count).then(records))
        })
    }

    /// Asserts that Envoy is live.
    ///
    /// # Errors
    /// Envoy is not live.
    pub fn is_alive(&self) -> Result<()> {
        let (status, state) = self.get_admin("/server_info")?;
        ensure!(status == 200 && state.contains("\"state\": \"LIVE\""), "{state}");
        Ok(())
    }
}
