//! Clients that hold connections, send slowly or send too much: each is bounded in time, number and
//! memory.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use context_guard_test_support::gateway::{Gateway, HttpClient, StreamedResponse, get};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A ping, and the answer to the pings of the gateway, which has the data of the crate h2.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping\
    \0\0\x08\x06\x01\0\0\0\0\x3b\x7c\xdb\x7a\x0b\x87\x16\xb4";

fn houses() -> Result<Value> {
    Ok(json!([{"name": "houses", "command": [artifacts::property_server()?]}]))
}

/// Checks that a new client is served.
fn check_service(gateway: &Gateway) -> Result<()> {
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    ensure!(!client.call("list_bookings", json!({"limit": 1}))?.is_error());
    Ok(())
}

/// Connects, and sends the first bytes of a client.
fn connect(gateway: &Gateway, first: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(gateway.base.trim_start_matches("http://"))?;
    stream.write_all(first)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Sends `more`, discards what has arrived, and returns true if the gateway has not closed the
/// connection.
fn is_open(stream: &mut TcpStream, more: &[u8]) -> bool {
    // The connection may be closed, which the read shows.
    let _ = stream.write_all(more);
    let mut buffer = [0u8; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Returns the head of an HTTP/2 request to `localhost`, as HPACK literals (RFC 7541). A GET has no
/// body, and a POST does not end.
fn headers_frame(stream: u8, is_get: bool, path: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let mut block = vec![if is_get { 0x82 } else { 0x83 }, 0x86, 0x04, length(path)];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x01\x09localhost");
    let (bytes, flags) = (u8::try_from(block.len()).unwrap(), if is_get { 5 } else { 4 });
    [&[0, 0, bytes, 1, flags, 0, 0, 0, stream], block.as_slice()].concat()
}

#[test]
fn silent_clients_are_disconnected() -> Result<()> {
    let timeouts =
        json!({"headSeconds": 1, "bodyPartSeconds": 1, "bodySeconds": 3, "idleSeconds": 1});
    let gateway = Gateway::start(houses()?, json!({"timeouts": timeouts}))?;
    let post = |rest: &str| format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{rest}").into_bytes();
    let streams: Vec<u8> =
        (0..100).flat_map(|at| headers_frame(2 * at + 1, false, "/mcp")).collect();
    let with_preface = |frames: &[u8]| [PREFACE, frames].concat();
    let health = headers_frame(1, true, "/healthz");
    // SETTINGS_INITIAL_WINDOW_SIZE is 0: no byte of a response body may be sent.
    let unread = [PREFACE, b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0", &health].concat();
    // Each client with its first bytes, and those that it sends from time to time.
    let clients: [(&str, Vec<u8>, &[u8]); 13] = [
        ("no byte", vec![], b""),
        ("half an HTTP/2 preface", b"PRI * HTTP/2".to_vec(), b""),
        ("a body that stops", post("Content-Length: 1000\r\n\r\n0123456789"), b""),
        ("a body that drips", post("Content-Length: 1000000\r\n\r\n0123456789"), b"x"),
        ("a chunked body that stops", post("Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\""), b""),
        ("an HTTP/2 preface and pings", PREFACE.to_vec(), PING),
        ("an answered HTTP/2 request and pings", with_preface(&health), PING),
        ("an HTTP/2 response that is not read", unread, PING),
        ("HTTP/2 requests without bodies", with_preface(&streams), b""),
        ("half an HTTP/2 head", with_preface(b"\0\0\x40\x01\x04\0\0\0\x01\x83\x86"), PING),
        ("half a head", post("Accept: application/json\r\nX-More: "), b""),
        ("a head that drips", post("X-More: "), b"x"),
        ("idle keep-alive", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), b""),
    ];
    let mut open = Vec::new();
    for (name, first, more) in &clients {
        let streams = (0..5).map(|_| connect(&gateway, first)).collect::<Result<Vec<_>>>()?;
        open.push((*name, streams, *more));
    }
    let closed = wait_until("end of all connections", || {
        for (_, streams, more) in &mut open {
            streams.retain_mut(|stream| is_open(stream, more));
        }
        open.retain(|(_, streams, _)| !streams.is_empty());
        std::thread::sleep(Duration::from_millis(50));
        Ok(open.is_empty())
    });
    let names: Vec<&str> = open.iter().map(|(name, ..)| *name).collect();
    closed.with_context(|| format!("open: {names:?}"))?;
    // A client that sends requests is not affected.
    check_service(&gateway)?;
    Ok(())
}

#[test]
fn slow_bodies_occupy_no_places() -> Result<()> {
    let limits = json!({"concurrency": 2, "queue": 2});
    let timeouts = json!({"bodyPartSeconds": 600, "bodySeconds": 600});
    let gateway = Gateway::start(houses()?, json!({"limits": limits, "timeouts": timeouts}))?;
    let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    let slow = (0..8).map(|_| connect(&gateway, head)).collect::<Result<Vec<_>>>()?;
    check_service(&gateway)?;
    drop(slow);
    Ok(())
}

#[test]
fn lost_clients_are_detected() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({}))?;
    let client = connect(&gateway, b"")?;
    let [server, client] = [client.peer_addr()?, client.local_addr()?]
        .map(|address| format!("0100007F:{:04X}", address.port()));
    // The kernel shows the timer of probes as 2 (proc_net_tcp.txt of Linux).
    wait_until("a timer of keep-alive probes", || {
        let sockets = std::fs::read_to_string("/proc/net/tcp")?;
        let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        Ok(fields.into_iter().any(|fields| {
            fields.get(1..3) == Some(&[server.as_str(), client.as_str()])
                && fields.get(5).is_some_and(|timer| timer.starts_with("02:"))
        }))
    })?;
    Ok(())
}

#[test]
fn slow_body_is_answered_with_408() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"timeouts": {"bodyPartSeconds": 1}}))?;
    let mut stream = connect(
        &gateway,
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    )?;
    stream.set_nonblocking(false)?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    ensure!(response.starts_with("HTTP/1.1 408 "), "{response}");
    ensure!(response.contains("timeouts.bodyPartSeconds"), "{response}");
    let metrics = gateway.get_admin("/metrics")?.1;
    ensure!(metrics.contains("context_guard_refused_total{reason=\"slow\"} 1"), "{metrics}");
    Ok(())
}

/// Returns a line of `/proc/PID/status` in bytes.
fn memory(gateway: &Gateway, name: &str) -> Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.process.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    Ok(digits.parse::<usize>()? << 10)
}

#[test]
fn unfinished_bodies_do_not_fill_memory() -> Result<()> {
    const BUFFERED: usize = 64 << 20;
    let limits = json!({"bufferedBytes": BUFFERED});
    let timeouts = json!({"bodyPartSeconds": 3});
    let gateway = Gateway::start(houses()?, json!({"limits": limits, "timeouts": timeouts}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    client.call("list_bookings", json!({"limit": 1}))?;
    let before = memory(&gateway, "VmRSS:")?;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n";
    let body = vec![b' '; 9_900_000];
    let answers: Vec<String> = std::thread::scope(|scope| {
        let send = || -> Result<String> {
            let mut stream = connect(&gateway, head.as_bytes())?;
            stream.set_nonblocking(false)?;
            // The gateway may refuse the request before it has read the body.
            let _ = stream.write_all(&body);
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let clients: Vec<_> = (0..60).map(|_| scope.spawn(send)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Result<_>>()
    })?;
    let count = |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
    let (slow, refused) = (count("HTTP/1.1 408 "), count("HTTP/1.1 503 "));
    ensure!(slow + refused == 60 && slow > 0 && refused > 0, "{slow} {refused} {answers:?}");
    let late = answers.iter().find(|answer| answer.starts_with("HTTP/1.1 503 "));
    let late = late.context("none")?.to_lowercase();
    ensure!(late.contains("retry-after: 1") && late.contains("limits.bufferedbytes"), "{late}");
    let used = memory(&gateway, "VmHWM:")?.saturating_sub(before);
    ensure!(used < BUFFERED + (48 << 20), "{used} bytes for bodies");
    // The memory is free again.
    client.call("list_bookings", json!({"limit": 1}))?;
    Ok(())
}

#[test]
fn silent_connections_do_not_use_all_descriptors() -> Result<()> {
    let gateway = Gateway::start_with_files(houses()?, json!({}), 256)?;
    gateway.process.wait_for_output(&["client connections"])?;
    let silent = (0..400).map(|_| connect(&gateway, b"")).collect::<Result<Vec<_>>>()?;
    ensure!(get(&format!("{}/healthz", gateway.base), &[])?.status == 200);
    ensure!(gateway.get_admin("/healthz")?.0 == 200);
    check_service(&gateway)?;
    drop(silent);
    Ok(())
}

#[test]
fn connections_of_one_address_are_limited() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"limits": {"connectionsPerAddress": 3}}))?;
    let clients: Vec<HttpClient> =
        (0..3).map(|_| HttpClient::open(&gateway.url(), &[], json!({}))).collect::<Result<_>>()?;
    let mut busy = Vec::new();
    for client in &clients {
        let session = ("mcp-session-id", client.session.as_str());
        let headers = [("accept", "text/event-stream"), session];
        let mut stream = StreamedResponse::send(&gateway.base, "GET", &headers, "")?;
        stream.read_until("200 OK")?;
        busy.push(stream);
    }
    // All connections have requests: a further one is refused.
    let mut refused = connect(&gateway, b"")?;
    refused.set_nonblocking(false)?;
    let mut answer = String::new();
    refused.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1"), "{answer}");
    let metrics = gateway.get_admin("/metrics")?.1;
    ensure!(metrics.contains("context_guard_refused_total{reason=\"connections\"}"), "{metrics}");
    let log = gateway.process.wait_for_output(&["access.trustedProxies if it is"])?;
    ensure!(log.matches("access.trustedProxies if it is").count() == 1, "{log}");
    // A place is free again.
    drop(busy.pop());
    wait_until("a free place", || {
        Ok(get(&format!("{}/healthz", gateway.base), &[]).is_ok_and(|reply| reply.status == 200))
    })?;
    Ok(())
}

/// Returns a header of the PROXY protocol, version 2, for a client with this IPv4 address.
fn proxy_header(client: [u8; 4]) -> Vec<u8> {
    let addresses = [&client[..], &[10, 0, 0, 1], &[0, 7], &[0, 80]].concat();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(), &addresses].concat()
}

/// Sends `first` and a request, and returns the answer until the end of the connection.
fn exchange(gateway: &Gateway, first: &[u8], path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut stream = connect(gateway, &[first, request.as_bytes()].concat())?;
    stream.set_nonblocking(false)?;
    let mut answer = String::new();
    // A refused connection may be reset.
    let _ = stream.read_to_string(&mut answer);
    Ok(answer)
}

#[test]
fn load_balancers_name_their_clients() -> Result<()> {
    let api = ScriptedServer::from_fn(|_| ScriptedResponse::json("{\"x\":1}"))?;
    let start = |proxies: &str| {
        let access = json!({
            "trustedProxies": [proxies],
            "proxyProtocol": true,
            "rateLimit": {"perMinute": 1, "burst": 1},
        });
        let limits = json!({"connectionsPerAddress": 1});
        let upstream = json!([{"name": "api", "rest": {"url": api.url()}}]);
        Gateway::start(upstream, json!({"access": access, "limits": limits}))
    };
    let (one, other) = (proxy_header([203, 0, 113, 7]), proxy_header([203, 0, 113, 8]));
    let gateway = start("127.0.0.0/8")?;
    let served = exchange(&gateway, &one, "/things")?;
    ensure!(served.starts_with("HTTP/1.1 200 "), "{served}");
    let received = api.requests().pop().context("no request")?;
    ensure!(received.header("x-forwarded-for") == "203.0.113.7", "{received:?}");
    // Rates and connections are limited for each client.
    ensure!(exchange(&gateway, &one, "/things")?.starts_with("HTTP/1.1 429 "));
    ensure!(exchange(&gateway, &other, "/things")?.starts_with("HTTP/1.1 200 "));
    let mut busy = connect(&gateway, &[&one[..], b"POST /things HTTP/1.1\r\n"].concat())?;
    wait_until("the first connection", || {
        let _ = exchange(&gateway, &other, "/healthz")?;
        Ok(is_open(&mut busy, b""))
    })?;
    ensure!(exchange(&gateway, &one, "/healthz")?.starts_with("HTTP/1.1 200 "));
    wait_until("its end for the second one", || Ok(!is_open(&mut busy, b"")))?;
    // A proxy that sends no header, or one of version 1, is misconfigured.
    for first in [b"".as_slice(), b"PROXY TCP4 203.0.113.7 10.0.0.1 7 80\r\n"] {
        ensure!(exchange(&gateway, first, "/healthz")?.is_empty());
    }
    // Other clients cannot choose their address.
    let gateway = start("10.0.0.0/8")?;
    ensure!(exchange(&gateway, b"", "/healthz")?.starts_with("HTTP/1.1 200 "));
    let forged = exchange(&gateway, &one, "/healthz")?;
    ensure!(!forged.contains(" 200 "), "{forged}");
    Ok(())
}
