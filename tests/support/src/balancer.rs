//! A load balancer without stickiness: each HTTP request goes to the next server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A load balancer over HTTP/1.1. It sends a request to the next server, or to another one if that
/// one does not answer, as Envoy does with `retry_on: connect-failure,reset`.
pub struct Balancer {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    servers: Mutex<Vec<String>>,
    next: AtomicUsize,
    retries: AtomicUsize,
    broken: AtomicUsize,
}

impl State {
    fn servers(&self) -> MutexGuard<'_, Vec<String>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Balancer {
    /// Starts a balancer without servers on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No port is free.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            servers: Mutex::default(),
            next: AtomicUsize::new(0),
            retries: AtomicUsize::new(0),
            broken: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(std::io::Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&state, client));
            }
        });
        Ok(Self { address, state })
    }

    /// Returns the URL of the MCP endpoint behind the balancer.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns scheme and authority.
    #[must_use]
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the servers, each by scheme and authority.
    pub fn set_servers<'s>(&self, servers: impl IntoIterator<Item = &'s str>) {
        let authority = |base: &str| base.trim_start_matches("http://").to_owned();
        *self.state.servers() = servers.into_iter().map(authority).collect();
    }

    /// Returns the number of attempts that another server had to repeat.
    #[must_use]
    pub fn retries(&self) -> usize {
        self.state.retries.load(Ordering::Relaxed)
    }

    /// Returns the number of responses that a server had begun and did not end.
    #[must_use]
    pub fn broken(&self) -> usize {
        self.state.broken.load(Ordering::Relaxed)
    }
}

fn serve(state: &State, mut client: TcpStream) {
    let Ok(request) = read_request(&mut client) else { return };
    let count = state.servers().len();
    for _ in 0..2 * count.max(1) {
        let at = state.next.fetch_add(1, Ordering::Relaxed);
        let server = state.servers().get(at % count.max(1)).cloned();
        let Some(server) = server else { break };
        match pass(&request, &server, &mut client) {
            Ok(is_whole) => {
                state.broken.fetch_add(usize::from(!is_whole), Ordering::Relaxed);
                return;
            }
            Err(_) => state.retries.fetch_add(1, Ordering::Relaxed),
        };
    }
    let _ = client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
}

/// Reads a request with its body. Its connection ends after the response.
fn read_request(client: &mut TcpStream) -> Result<Vec<u8>> {
    let (mut received, mut buffer) = (Vec::new(), [0u8; 8_192]);
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines: Vec<&str> = head.lines().collect();
            let length = lines.iter().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                let kept = lines
                    .into_iter()
                    .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
                let head = kept.collect::<Vec<_>>().join("\r\n");
                return Ok(format!("{head}\r\nConnection: close\r\n\r\n{body}").into_bytes());
            }
        }
        let read = client.read(&mut buffer)?;
        if read == 0 {
            bail!("the client left");
        }
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
}

/// Passes a request to a server, and its response to the client as it arrives. Returns false if the
/// server did not end the response: no other server can continue it.
fn pass(request: &[u8], server: &str, client: &mut TcpStream) -> Result<bool> {
    let address = server.parse().context("an address")?;
    let mut upstream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    upstream.write_all(request)?;
    let (mut buffer, mut response) = ([0u8; 16_384], Vec::new());
    loop {
        match upstream.read(&mut buffer) {
            Ok(0) if response.is_empty() => bail!("no response"),
            Ok(0) => return Ok(is_whole(&response)),
            Err(_) if !response.is_empty() => return Ok(false),
            Err(error) => return Err(error.into()),
            Ok(read) => {
                let part = buffer.get(..read).unwrap_or_default();
                response.extend_from_slice(part);
                if client.write_all(part).is_err() {
                    return Ok(true);
                }
            }
        }
    }
}

/// Returns true unless the response is sent in chunks, and the last one is missing.
fn is_whole(response: &[u8]) -> bool {
    let text = String::from_utf8_lossy(response);
    let head = text.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    !head.contains("transfer-encoding: chunked") || response.ends_with(b"0\r\n\r\n")
}
