//! Checks of a gateway file: its ports, its store and the programs of its upstreams.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use context_guard::Clock;
use context_guard::clock::SystemClock;
use context_guard::config::{self, Config, Upstream};

use super::Check;
use super::probe::FoundServer;
use crate::cli::config_files::missing_program;
#[cfg(target_os = "linux")]
use crate::cli::run_sandboxed;
use crate::cli::runtime::{self, GatewayFiles};

/// The time limit of the connection, and of each read, in the health check of a program that
/// already uses the port.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks a gateway file. Adds the results to `checks`. Returns its upstreams that are programs and
/// can be started.
pub(super) fn checks(file: &Path, checks: &mut Vec<Check>) -> Vec<FoundServer> {
    let subject = file.display().to_string();
    let config = match config::read(file) {
        Ok(config) => config,
        Err(error) => {
            checks.push(
                Check::failed("gateway", subject, error.to_string())
                    .advise(format!("context-guard config check {}", file.display())),
            );
            return Vec::new();
        }
    };
    let files = GatewayFiles { config: Some(file.to_owned()), component: None, bundle: None };
    match files.layout_of(&config).map_err(anyhow::Error::from) {
        Ok(layout) => match layout.keys() {
            Ok(None) => checks.push(
                Check::warning(
                    "keys",
                    subject.as_str(),
                    "no signing keys: cursors of `serve` end with the gateway",
                )
                .advise("set signingKeys in the gateway file"),
            ),
            Ok(Some(keys)) => {
                let message = super::count(keys.len(), "signing key");
                checks.push(Check::ok("keys", subject.as_str(), message));
            }
            Err(error) => checks.push(Check::failed("keys", subject.as_str(), error.to_string())),
        },
        Err(error) => checks.push(Check::failed("gateway", subject.as_str(), format!("{error:#}"))),
    }
    let mut found = Vec::new();
    for upstream in &config.upstreams {
        let subject = format!("{subject}: {}", upstream.name);
        if let Some(reason) = missing_program(upstream, &config.folder) {
            checks.push(Check::failed("command", subject, reason));
            continue;
        }
        #[cfg(target_os = "linux")]
        if let Some(sandbox) = &upstream.sandbox {
            if run_sandboxed::may_read(sandbox, &config.folder, file) {
                let message = "its sandbox can read the gateway file";
                let advice = "move the gateway file to a folder that no upstream may read";
                checks.push(Check::warning("sandbox", subject.as_str(), message).advise(advice));
            }
            match run_sandboxed::check(sandbox, &config.folder) {
                Ok(()) => {
                    let message = "the kernel can enforce its sandbox";
                    checks.push(Check::ok("sandbox", subject.as_str(), message));
                }
                Err(reason) => {
                    let message = format!("its sandbox cannot be entered: {reason}");
                    checks.push(Check::failed("sandbox", subject, message));
                    continue;
                }
            }
        }
        found.extend(server(upstream, &config.folder, subject, checks));
    }
    checks.extend(ports(&config));
    checks.push(store(&config));
    found
}

/// Returns the upstream if it is a program that can be started, as the gateway starts it.
fn server(
    upstream: &Upstream,
    folder: &Path,
    subject: String,
    checks: &mut Vec<Check>,
) -> Option<FoundServer> {
    if upstream.command.is_empty() {
        checks.push(Check::skipped("server", subject, "over HTTP: not contacted"));
        return None;
    }
    let launcher = std::env::current_exe().ok();
    match context_guard::gateway::upstream_command(upstream, folder, launcher.as_deref()) {
        Ok(command) => {
            Some(FoundServer { subject, command_line: upstream.command.clone(), command })
        }
        Err(reason) => {
            checks.push(Check::failed("command", subject, format!("cannot be started: {reason}")));
            None
        }
    }
}

/// An address of the gateway file.
#[derive(Clone, Copy)]
struct ListenAddress<'a> {
    setting: &'static str,
    address: &'a str,
    uses_tls: bool,
}

impl<'a> ListenAddress<'a> {
    fn new(setting: &'static str, address: &'a str, uses_tls: bool) -> Self {
        Self { setting, address, uses_tls }
    }
}

/// Checks the endpoint of a gateway in a client's file. `None` if its URL is not one of this
/// machine.
pub(super) fn endpoint(subject: &str, url: &str) -> Option<Check> {
    let url: http::Uri = url.parse().ok()?;
    let host = url.host().filter(|host| matches!(*host, "127.0.0.1" | "[::1]" | "localhost"))?;
    let uses_tls = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if uses_tls { 443 } else { 80 });
    let address = format!("{host}:{port}");
    Some(if is_gateway(ListenAddress::new("url", &address, uses_tls)) {
        Check::ok("endpoint", subject, format!("a gateway answers at {address}"))
    } else {
        Check::failed("endpoint", subject, format!("no gateway answers at {address}"))
            .advise("context-guard serve --config FILE, with the gateway file of `install`")
    })
}

/// Checks all addresses at which a gateway with this configuration listens.
fn ports(config: &Config) -> Vec<Check> {
    let plain = |setting, address| ListenAddress::new(setting, address, false);
    let external = config.external.as_ref().map(|one| plain("external.listen", &one.listen));
    let fleet = config.fleet.as_ref().map(|one| plain("fleet.listen", &one.listen));
    let filters = config.filter_store.as_ref().map(|one| plain("filterStore.listen", &one.listen));
    let main = external
        .is_none()
        .then(|| ListenAddress::new("listen", &config.listen, config.tls.is_some()));
    let admin = config.admin.as_ref();
    let admin = admin.map(|one| ListenAddress::new("admin.listen", &one.listen, one.tls.is_some()));
    let answering: Vec<_> = [main, admin].into_iter().flatten().collect();
    // These do not answer the health check, or only while the store is up: the other addresses tell
    // if a gateway runs. ext-proc and ext-mcp start no fleet and no store for filters.
    let others = if external.is_some() { [external, None] } else { [fleet, filters] };
    let is_running = answering.iter().any(|address| is_gateway(*address));
    let answering = answering.iter().map(|address| port(*address, false));
    let others = others.iter().flatten().map(|address| port(*address, is_running));
    answering.chain(others).collect()
}

/// Checks that an address is free, or that a gateway has it. `is_running` is true if the gateway is
/// known to run.
fn port(listen: ListenAddress<'_>, is_running: bool) -> Check {
    let ListenAddress { setting, address, .. } = listen;
    let subject = format!("{setting} {address}");
    match TcpListener::bind(address) {
        Ok(_) => Check::ok("port", subject, "free"),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            if is_gateway(listen) {
                return Check::ok("port", subject, "a gateway is running");
            }
            if is_running {
                return Check::ok("port", subject, "in use, probably by the gateway that runs");
            }
            Check::failed("port", subject, "another program has it")
                .advise(format!("end that program, or change `{setting}`"))
        }
        Err(error) => {
            Check::failed("port", subject, error.to_string()).advise(format!("change `{setting}`"))
        }
    }
}

/// Returns true if the program at the first address of a name answers a gateway's health check over
/// HTTP. If the address uses TLS, any TLS server counts, because the check has no certificate.
fn is_gateway(listen: ListenAddress<'_>) -> bool {
    let mut addresses = listen.address.to_socket_addrs().into_iter().flatten();
    let answer = addresses.next().and_then(|address| ask(address).ok()).unwrap_or_default();
    is_healthy(&answer) || listen.uses_tls && is_tls_alert(&answer)
}

/// Sends a health check over plain HTTP, and returns the start of the answer.
fn ask(address: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    // What arrives before an error counts, because a TLS server may reset the connection.
    let _ = stream.take(4096).read_to_end(&mut answer);
    Ok(answer)
}

fn is_healthy(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200")
}

/// Returns true if an answer is an alert, with which a TLS server answers plain HTTP (RFC 8446,
/// section 6).
fn is_tls_alert(answer: &[u8]) -> bool {
    answer.starts_with(&[21, 3])
}

/// Checks that the store accepts and returns a value.
fn store(config: &Config) -> Check {
    let subject = "store";
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = match runtime::store(config, &clock) {
        Ok(store) => store,
        Err(error) => {
            return Check::failed("store", subject, format!("{error:#}"))
                .advise("correct `store.url`, or start the store");
        }
    };
    let (principal, key) = ("context-guard doctor", "doctor".to_owned());
    let value = b"doctor".to_vec();
    let stored = store
        .put(principal, vec![(key.clone(), value.clone())], Duration::from_secs(60))
        .and_then(|()| store.get(principal, std::slice::from_ref(&key)));
    let _ = store.delete(principal, &[key]);
    match stored {
        Ok(found) if found.first().and_then(Option::as_deref) == Some(&value) => {
            let kind = if store.may_block() { "shared, reachable" } else { "in memory" };
            Check::ok("store", subject, kind)
        }
        Ok(_) => Check::warning("store", subject, "it stores nothing: withheld data is lost")
            .advise("set `store.url` to memory or to a Redis URL"),
        Err(error) => Check::failed("store", subject, error.to_string())
            .advise("start the store, and check `store.url`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn answers_of_gateways_are_known() {
        assert!(is_healthy(b"HTTP/1.1 200 OK\r\n") && !is_healthy(b"HTTP/1.1 404 Not Found\r\n"));
        // A fatal alert in TLS 1.2 framing: decode error.
        assert!(is_tls_alert(&[21, 3, 3, 0, 2, 2, 50]));
        assert!(!is_tls_alert(b"HTTP/1.1 400 Bad Request\r\n") && !is_tls_alert(b""));
    }

    #[test]
    fn endpoints_of_this_machine_are_checked() {
        let status = |url: &str| endpoint("cursor: context-guard", url).map(|one| one.status);
        // A port that was free a moment ago, so that nothing answers there.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(status(&format!("http://{address}/mcp")), Some(super::super::Status::Failed));
        assert_eq!(status("https://gateway.example/mcp"), None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Unread bytes would reset the connection.
            let _ = stream.read(&mut [0; 512]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        });
        assert_eq!(status(&format!("http://{address}/mcp")), Some(super::super::Status::Ok));
        answering.join().unwrap();
    }

    #[test]
    fn all_listen_addresses_are_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let used = listener.local_addr().unwrap().to_string();
        let statuses = |settings: Value| {
            let config = serde_json::from_value(settings).unwrap();
            let checks = ports(&config).into_iter().map(|check| json!(check));
            let checks = checks.map(|check| format!("{} {}", check["subject"], check["status"]));
            checks.collect::<Vec<_>>()
        };
        let free = "127.0.0.1:0";
        let gateway = json!({
            "listen": free,
            "admin": {"listen": free},
            "fleet": {"listen": used},
            "filterStore": {"listen": used},
        });
        assert_eq!(
            statuses(gateway),
            [
                format!("\"listen {free}\" \"ok\""),
                format!("\"admin.listen {free}\" \"ok\""),
                format!("\"fleet.listen {used}\" \"failed\""),
                format!("\"filterStore.listen {used}\" \"failed\""),
            ]
        );
        let external = json!({"listen": free, "external": {"listen": used}});
        assert_eq!(statuses(external), [format!("\"external.listen {used}\" \"failed\"")]);
    }
}
