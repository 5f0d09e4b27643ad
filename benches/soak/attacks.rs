//! The attackers: each kind runs in threads until it is stopped.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use context_guard_test_support::gateway::{Gateway, HttpClient, StreamedResponse};
use context_guard_test_support::{Result, bail};
use serde_json::{Value, json};

use super::Hostile;

/// The tool of the well-behaved clients.
pub(super) const LIST: &str = "houses__list_bookings";
/// The time between two looks at the state of an attack.
const PAUSE: Duration = Duration::from_millis(50);

/// A kind of attack.
pub(super) struct Kind {
    pub(super) name: &'static str,
    threads: usize,
    /// Attacks until the target is stopped. An error of one attempt does not end the attack.
    attack: fn(&Target) -> Result<()>,
}

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "batch flood", threads: 4, attack: batch_flood },
    Kind { name: "slow bodies", threads: 1, attack: slow_bodies },
    Kind { name: "silent connections", threads: 1, attack: silent_connections },
    Kind { name: "unread streams", threads: 8, attack: unread_streams },
    Kind { name: "expensive queries", threads: 4, attack: expensive_queries },
    Kind { name: "process starter", threads: 4, attack: process_starter },
    Kind { name: "flooding upstream", threads: 4, attack: flooding_upstream },
    Kind { name: "endless standard error", threads: 4, attack: endless_standard_error },
];

/// The gateway that an attack is aimed at.
#[derive(Clone)]
struct Target {
    base: String,
    key: String,
    hostile: Hostile,
    stop: Arc<AtomicBool>,
}

impl Target {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.hostile.fetch_add(1, Ordering::Relaxed);
    }

    fn pause(&self) {
        std::thread::sleep(PAUSE);
    }

    fn wait_for_stop(&self) {
        while !self.is_stopped() {
            self.pause();
        }
    }

    fn open(&self, version: &str) -> Result<HttpClient> {
        let headers = [("authorization", self.key.as_str())];
        HttpClient::open_version(version, &format!("{}/mcp", self.base), &headers, json!({}))
    }

    /// Sends a message in a session, and leaves the response unread.
    fn send(&self, session: &HttpClient, body: &Value) -> Result<StreamedResponse> {
        self.count();
        let headers = [
            ("mcp-session-id", session.session.as_str()),
            ("authorization", self.key.as_str()),
            ("accept", "application/json, text/event-stream"),
        ];
        StreamedResponse::send(&self.base, "POST", &headers, &body.to_string())
    }

    /// Opens a connection, which ends a pending read or write after a pause.
    fn connect(&self) -> Result<TcpStream> {
        self.count();
        let connection = TcpStream::connect(self.base.trim_start_matches("http://"))?;
        connection.set_nonblocking(true)?;
        Ok(connection)
    }
}

/// A running attack.
pub(super) struct Attack {
    target: Target,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    pub(super) fn start(kind: &'static Kind, gateway: &Gateway, key: &str) -> Result<Self> {
        let target = Target {
            base: gateway.base.clone(),
            key: key.to_owned(),
            hostile: Hostile::default(),
            stop: Arc::default(),
        };
        let threads = (0..kind.threads).map(|_| {
            let target = target.clone();
            std::thread::spawn(move || {
                while !target.is_stopped() {
                    // The gateway refuses and disconnects attackers.
                    if (kind.attack)(&target).is_err() {
                        target.pause();
                    }
                }
            })
        });
        Ok(Self { threads: threads.collect(), target })
    }

    /// Stops the attack, and returns the number of its requests or connections.
    pub(super) fn finish(self) -> Result<u64> {
        self.target.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                bail!("an attacker panicked");
            }
        }
        Ok(self.target.hostile.load(Ordering::Relaxed))
    }
}

fn call(id: usize, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Sends batches of 50 calls, one after the other.
fn batch_flood(target: &Target) -> Result<()> {
    let session = target.open("2025-03-26")?;
    let calls = (0..50).map(|id| call(id, LIST, json!({"limit": 20})));
    let batch = Value::from_iter(calls);
    while !target.is_stopped() {
        target.count();
        session.send(&batch)?;
    }
    Ok(())
}

/// Announces bodies, and sends a byte of each now and then.
fn slow_bodies(target: &Target) -> Result<()> {
    let mut connections = Vec::new();
    while !target.is_stopped() {
        if connections.len() < 150 {
            let mut connection = target.connect()?;
            write!(
                connection,
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n\
                 content-type: application/json\r\ncontent-length: 9000000\r\n\r\n[",
                target.key
            )?;
            connections.push(connection);
        } else {
            std::thread::sleep(PAUSE * 20);
            connections.retain_mut(|connection| connection.write_all(b" ").is_ok());
        }
    }
    Ok(())
}

/// Opens connections that send nothing, and replaces those that the gateway closes.
fn silent_connections(target: &Target) -> Result<()> {
    let mut connections = Vec::new();
    while !target.is_stopped() {
        if connections.len() < 250 {
            connections.push(target.connect()?);
        } else {
            target.pause();
            let is_open = |connection: &mut TcpStream| {
                let read = connection.read(&mut [0; 64]);
                read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
            };
            connections.retain_mut(is_open);
        }
    }
    Ok(())
}

/// Calls that answer without end, whose responses nobody reads.
fn unread_streams(target: &Target) -> Result<()> {
    let session = target.open("2025-11-25")?;
    let _unread = (0..4)
        .map(|id| target.send(&session, &call(id, "faulty__flood", json!({}))))
        .collect::<Result<Vec<_>>>()?;
    target.wait_for_stop();
    Ok(())
}

/// Calls whose answers are searched with patterns and grouped.
fn expensive_queries(target: &Target) -> Result<()> {
    let mut session = target.open("2025-11-25")?;
    let queries = [
        json!({"_guard": {"grep": "(a|b|c|d)+.*(e|f)+.*x?y?z?", "context": 50}}),
        json!({"_guard": {"aggregate": "count by id, distinct(id), sum(id), avg(id)"}}),
        json!({"_guard": {"path": "$..*", "fields": "all"}}),
    ];
    for query in queries.iter().cycle() {
        if target.is_stopped() {
            break;
        }
        target.count();
        session.call(LIST, query.clone())?;
    }
    Ok(())
}

/// Opens sessions and starts a process in each.
fn process_starter(target: &Target) -> Result<()> {
    while !target.is_stopped() {
        let mut session = target.open("2025-11-25")?;
        target.count();
        session.call("faulty__ok", json!({}))?;
    }
    Ok(())
}

/// Calls that answer with notifications without end, whose responses are read.
fn flooding_upstream(target: &Target) -> Result<()> {
    let session = target.open("2025-11-25")?;
    // A call that ends at a limit of the gateway, so that the response has an end.
    while !target.is_stopped() {
        target.count();
        session.send(&call(1, "faulty__flood", json!({"count": 500})))?;
    }
    Ok(())
}

/// Makes an upstream write to standard error without end.
fn endless_standard_error(target: &Target) -> Result<()> {
    let session = target.open("2025-11-25")?;
    let _unread = target.send(&session, &call(1, "faulty__complain", json!({})))?;
    target.wait_for_stop();
    Ok(())
}
