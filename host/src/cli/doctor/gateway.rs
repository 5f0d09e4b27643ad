//! Checks of a gateway file: its ports, its store and the programs of its upstreams.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use context_guard::Clock;
use context_guard::clock::SystemClock;
use context_guard::config::{self, Config};

use super::Check;
use crate::cli::config_files::missing_program;
use crate::cli::runtime::{self, GatewayFiles};

/// The time limit of the health check of a program that already uses the port.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn checks(file: &Path, checks: &mut Vec<Check>) {
    let subject = file.display().to_string();
    let config = match config::read(file) {
        Ok(config) => config,
        Err(error) => {
            checks.push(
                Check::failed("gateway", subject, error.to_string())
                    .advise(format!("context-guard config check {}", file.display())),
            );
            return;
        }
    };
    let files = GatewayFiles { config: Some(file.to_owned()), component: None, bundle: None };
    match files.layout_of(&config).map_err(anyhow::Error::from) {
        Ok(layout) => match layout.keys() {
            Ok(None) => checks.push(
                Check::warning(
                    "keys",
                    subject.as_str(),
                    "no signing keys: cursors end with the gateway",
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
    for upstream in &config.upstreams {
        if let Some(reason) = missing_program(upstream, &config.folder) {
            checks.push(Check::failed("command", format!("{subject}: {}", upstream.name), reason));
        }
    }
    checks.push(port("listen", &config.listen));
    if let Some(admin) = &config.admin {
        checks.push(port("admin.listen", &admin.listen));
    }
    checks.push(store(&config));
}

/// Checks that an address is free, or that a gateway uses it.
fn port(setting: &str, address: &str) -> Check {
    let subject = format!("{setting} {address}");
    match TcpListener::bind(address) {
        Ok(_) => Check::ok("port", subject, "free"),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let address = address.to_socket_addrs().ok().and_then(|mut all| all.next());
            if address.is_some_and(is_healthy) {
                return Check::ok("port", subject, "a gateway is running");
            }
            Check::failed("port", subject, "another program has it")
                .advise(format!("end that program, or change `{setting}`"))
        }
        Err(error) => {
            Check::failed("port", subject, error.to_string()).advise(format!("change `{setting}`"))
        }
    }
}

/// Returns true if the program at an address answers a gateway's health check.
fn is_healthy(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
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
