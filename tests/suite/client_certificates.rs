//! Certificates of the clients of a gateway.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use context_guard_test_support::answer::Answer;
use context_guard_test_support::certificates::{Authority, Certificate};
use context_guard_test_support::gateway::Gateway;
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

use crate::access::key;

fn houses() -> Result<Value> {
    Ok(json!([{"name": "houses", "command": [artifacts::property_server()?]}]))
}

/// Returns the TLS settings with the certificate of a server and the authorities of clients.
fn settings(server: &Certificate, clients: &Path) -> Value {
    json!({"cert": server.cert, "key": server.key, "clientCa": clients})
}

/// An authority of servers and clients, and a gateway that requires its certificates.
struct Setup {
    authority: Authority,
    gateway: Gateway,
}

/// Starts a gateway in a new folder. `more` overrides members of its configuration.
fn start(name: &str, upstreams: Value, more: Value) -> Result<Setup> {
    let authority = Authority::create(peers::folder(name)?.join("ca"))?;
    let tls = settings(&authority.issue_server()?, &authority.file());
    let mut config = json!({"tls": tls});
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    let gateway = Gateway::start(upstreams, config)?;
    Ok(Setup { authority, gateway })
}

impl Setup {
    /// Returns the command that sends a request with a certificate to a path.
    fn curl(&self, certificate: Option<&Certificate>, path: &str, more: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sS", "-i", "--cacert"]).arg(self.authority.file());
        if let Some(Certificate { cert, key }) = certificate {
            command.arg("--cert").arg(cert).arg("--key").arg(key);
        }
        let base = self.gateway.base.replace("127.0.0.1", "localhost");
        command.args(more).arg(format!("{base}{path}"));
        command
    }

    /// Sends a request, and returns what was printed: head and body of the response, or an error.
    fn send(&self, certificate: Option<&Certificate>, path: &str, more: &[&str]) -> Result<String> {
        let output = self.curl(certificate, path, more).output()?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// Returns true if the gateway accepts a certificate.
    fn accepts(&self, certificate: &Certificate) -> Result<bool> {
        Ok(self.send(Some(certificate), "/healthz", &[])?.contains(" 200"))
    }

    fn logged(&self, text: &str) -> usize {
        self.gateway.process.output().matches(text).count()
    }
}

/// A stateful MCP client with a certificate.
struct Client<'s> {
    setup: &'s Setup,
    certificate: Certificate,
    session: String,
}

impl<'s> Client<'s> {
    fn open(setup: &'s Setup, certificate: &Certificate) -> Result<Self> {
        let (certificate, session) = (certificate.clone(), String::new());
        let mut client = Self { setup, certificate, session };
        let info = json!({"name": "t", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let opened = client.post("initialize", &params)?;
        let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        client.session = session.with_context(|| opened.clone())?.trim().to_owned();
        Ok(client)
    }

    /// Sends a request, and returns head and body of the response.
    fn post(&self, method: &str, params: &Value) -> Result<String> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (session, body) = (format!("mcp-session-id: {}", self.session), message.to_string());
        let accept = "accept: application/json, text/event-stream";
        let mut more = vec!["-H", "content-type: application/json", "-H", accept, "-d", &body];
        if !self.session.is_empty() {
            more.extend(["-H", &session]);
        }
        self.setup.send(Some(&self.certificate), "/mcp", &more)
    }

    fn call(&self, tool: &str, arguments: Value) -> Result<Answer> {
        let response = self.post("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let data = response.lines().find_map(|line| {
            let line = line.strip_prefix("data: ").unwrap_or(line);
            line.starts_with('{').then_some(line)
        });
        Ok(Answer(serde_json::from_str(data.with_context(|| response.clone())?)?))
    }
}

#[test]
fn clients_without_valid_certificate_are_refused() -> Result<()> {
    let setup = start("mtls-refusals", houses()?, json!({}))?;
    let authority = &setup.authority;
    let right = authority.issue("alice", "/CN=alice", "")?;
    for version in ["--http1.1", "--http2"] {
        let served = setup.send(Some(&right), "/healthz", &[version])?;
        ensure!(served.contains(" 200"), "{version}: {served}");
    }
    // The names of this authority and of its client are those of the right ones.
    let foreign = Authority::create(peers::folder("mtls-foreign")?.join("ca"))?;
    let certificates = [
        ("none", None),
        ("a foreign one", Some(foreign.issue("alice", "/CN=alice", "")?)),
        ("an expired one", Some(authority.issue_expired("expired", "/CN=alice")?)),
        ("that of a server", Some(authority.issue_server()?)),
        (
            "the key of another",
            Some(Certificate { key: right.key.clone(), ..authority.issue("b", "/CN=b", "")? }),
        ),
    ];
    for (name, certificate) in certificates {
        for version in ["--tlsv1.3", "--tls-max=1.2"] {
            let version: Vec<&str> = version.split('=').collect();
            let output = setup.curl(certificate.as_ref(), "/healthz", &version).output()?;
            let refused = !output.status.success() && output.stdout.is_empty();
            ensure!(refused, "{name}, {version:?}: {output:?}");
        }
    }
    Ok(())
}

#[test]
fn certificates_separate_principals() -> Result<()> {
    let setup = start("mtls-principals", houses()?, json!({}))?;
    let issue = |file: &str, subject: &str, names: &str| {
        let names =
            if names.is_empty() { String::new() } else { format!("subjectAltName={names}") };
        setup.authority.issue(file, subject, &names)
    };
    let alice = Client::open(&setup, &issue("alice", "/CN=alice", "")?)?;
    let arguments = json!({"limit": 5});
    let cursor = alice.call("list_bookings", arguments)?.next_cursor().context("no cursor")?;
    let reads = |client: &Client| client.call("context_guard_read", json!({"cursor": cursor}));
    ensure!(!reads(&alice)?.is_error());
    // A new certificate with the same name is the same principal.
    let renewed = Client::open(&setup, &issue("renewed", "/CN=alice", "")?)?;
    ensure!(!reads(&renewed)?.is_error());
    for (file, subject, names, principal) in [
        ("bob", "/CN=bob", "", "cert:subject:CN=bob"),
        ("dns", "/CN=alice", "DNS:Alice.Example,email:a@b.example", "cert:dns:alice.example"),
        ("uri", "/CN=alice", "DNS:a.example,URI:spiffe://b/c,URI:urn:d", "cert:uri:spiffe://b/c"),
        ("email", "/CN=alice", "email:alice@b.example", "cert:email:alice@b.example"),
        ("imitation", "/CN=dns:alice.example", "IP:10.0.0.1", "cert:subject:CN=dns:alice.example"),
        ("order", "/CN=b/O=x,CN=alice", "", "cert:subject:O=x\\\\,CN=alice,CN=b"),
    ] {
        let other = Client::open(&setup, &issue(file, subject, names)?)?;
        let stolen = reads(&other)?;
        ensure!(stolen.all_texts().join("").contains("cursor_invalid"), "{file}: {}", stolen.0);
        // For another principal, the session does not exist.
        let other = Client { session: alice.session.clone(), ..other };
        let refused = other.post("tools/list", &json!({}))?;
        ensure!(refused.contains(" 404"), "{file}: {refused}");
        let records = setup.gateway.get_admin("/admin/telemetry?endpoint=*context_guard_read")?.1;
        let principal = format!("\"{principal}\"");
        ensure!(records.contains(&principal), "{principal} is not in {records}");
    }
    let nameless = issue("nameless", "/", "IP:10.0.0.1")?;
    let refused = setup.send(Some(&nameless), "/mcp", &[])?;
    ensure!(refused.contains(" 403") && refused.contains("names nobody"), "{refused}");
    Ok(())
}

#[test]
fn keys_are_needed_in_addition_to_certificates() -> Result<()> {
    let file = peers::folder("mtls-keys")?.join("keys.json");
    let key = format!("x-api-key: {}", key(&file, "alice")?);
    let api = ScriptedServer::from_fn(|_| ScriptedResponse::json("{}"))?;
    let upstreams = json!([{"name": "api", "rest": {"url": api.url()}}]);
    let access = json!({"keys": file, "rateLimit": {"perMinute": 0}});
    let setup = start("mtls-and-keys", upstreams, json!({"access": access}))?;
    let certificate = setup.authority.issue("bob", "/CN=bob", "")?;
    let send = |certificate, more: &[&str]| setup.send(certificate, "/things", more);
    let refused = send(Some(&certificate), &[])?;
    ensure!(refused.contains(" 401"), "{refused}");
    ensure!(send(Some(&certificate), &["-H", &key])?.contains(" 200"));
    let records = setup.gateway.get_admin("/admin/telemetry")?.1;
    ensure!(records.contains("\"key:alice\"") && !records.contains("cert:"), "{records}");
    let refused = send(None, &["-H", &key])?;
    ensure!(!refused.contains("HTTP/"), "{refused}");
    Ok(())
}

#[test]
fn changed_authorities_apply_to_new_connections() -> Result<()> {
    let folder = peers::folder("mtls-change")?;
    let setup = start("mtls-change-first", houses()?, json!({}))?;
    let old = setup.authority.issue("alice", "/CN=alice", "")?;
    let next = Authority::create(folder.join("ca"))?;
    let new = next.issue("alice", "/CN=alice", "")?;
    ensure!(setup.accepts(&old)? && !setup.accepts(&new)?);
    // The file trusts both authorities, then the new one only.
    let file = setup.authority.file();
    let (first, second) = (std::fs::read(&file)?, std::fs::read(next.file())?);
    let server_authority = folder.join("servers.pem");
    std::fs::write(&server_authority, &first)?;
    std::fs::write(&file, [first, second.clone()].concat())?;
    wait_until("the second authority", || setup.accepts(&new))?;
    ensure!(setup.accepts(&old)?);
    // While the file is invalid, the last authorities remain in use.
    std::fs::write(&file, "no certificate")?;
    let warning = "the last certificates remain in use";
    wait_until("a warning", || Ok(setup.logged(warning) > 0))?;
    let trusted = server_authority.display().to_string();
    let accepts = |certificate| -> Result<bool> {
        Ok(setup.send(Some(certificate), "/healthz", &["--cacert", &trusted])?.contains(" 200"))
    };
    ensure!(accepts(&new)? && accepts(&old)?);
    std::fs::write(&file, second)?;
    wait_until("the end of the first authority", || Ok(!accepts(&old)?))?;
    ensure!(accepts(&new)?);
    ensure!(setup.logged(warning) == 1, "{}", setup.gateway.process.output());
    Ok(())
}

#[test]
fn revoked_certificates_are_refused() -> Result<()> {
    let authority = Authority::create(peers::folder("mtls-revocation")?.join("ca"))?;
    let [alice, bob] =
        ["alice", "bob"].map(|name| authority.issue(name, &format!("/CN={name}"), ""));
    let (alice, bob, server) = (alice?, bob?, authority.issue_server()?);
    let list = authority.file().with_file_name("crl.pem");
    authority.revoke(&bob)?;
    authority.write_revocations(&list)?;
    let mut tls = settings(&server, &authority.file());
    tls["clientCrl"] = json!(list);
    let gateway = Gateway::start(houses()?, json!({"tls": tls}))?;
    let setup = Setup { authority, gateway };
    ensure!(setup.accepts(&alice)? && !setup.accepts(&bob)?);
    setup.authority.revoke(&alice)?;
    setup.authority.write_revocations(&list)?;
    wait_until("the second revocation", || Ok(!setup.accepts(&alice)?))?;
    Ok(())
}

#[test]
fn sessions_are_not_resumed_without_verification() -> Result<()> {
    let setup = start("mtls-resumption", houses()?, json!({}))?;
    let certificate = setup.authority.issue("alice", "/CN=alice", "")?;
    let mut command = Command::new("openssl");
    command.args(["s_client", "-tls1_2", "-reconnect", "-connect"]);
    command.arg(setup.gateway.base.trim_start_matches("https://"));
    command.arg("-cert").arg(&certificate.cert).arg("-key").arg(&certificate.key);
    let printed = command.stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    let sessions = |kind| printed.lines().filter(|line| line.starts_with(kind)).count();
    ensure!(sessions("New, ") == 6 && sessions("Reused, ") == 0, "{printed}");
    Ok(())
}

/// Passes connections to `target`, each after a header of the PROXY protocol, version 2, that names
/// the client 203.0.113.7. Returns the address.
fn load_balancer(target: String) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client?, TcpStream::connect(&target)?);
            server.write_all(
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\0\x07\0\x50",
            )?;
            let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut to_server);
                to_server.shutdown(std::net::Shutdown::Write)
            });
            // A refused connection may be reset.
            let _ = std::io::copy(&mut server, &mut client);
        }
        std::io::Result::Ok(())
    });
    Ok(address)
}

#[test]
fn proxy_header_precedes_the_handshake() -> Result<()> {
    let api = ScriptedServer::from_fn(|_| ScriptedResponse::json("{}"))?;
    let access = json!({
        "trustedProxies": ["127.0.0.0/8"],
        "proxyProtocol": true,
        "rateLimit": {"perMinute": 0},
    });
    let upstreams = json!([{"name": "api", "rest": {"url": api.url()}}]);
    let setup = start("mtls-proxy", upstreams, json!({"access": access}))?;
    let certificate = setup.authority.issue("alice", "/CN=alice", "")?;
    let gateway = setup.gateway.base.trim_start_matches("https://");
    let balancer = load_balancer(gateway.to_owned())?;
    let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
    let way = format!("localhost:{}:127.0.0.1:{}", port(gateway), port(&balancer));
    let through = ["--connect-to", &way];
    // A proxy that ends TLS may name the certificate, but here the client would.
    let forged = ["-H", "client-cert: :AAAA:"];
    let served = setup.send(Some(&certificate), "/things", &[through, forged].concat())?;
    ensure!(served.contains(" 200"), "{served}");
    let received = api.requests().pop().context("no request")?;
    ensure!(received.header("x-forwarded-for") == "203.0.113.7", "{received:?}");
    let records = setup.gateway.get_admin("/admin/telemetry")?.1;
    ensure!(records.contains("\"cert:subject:CN=alice\""), "{records}");
    // A certificate is needed behind a load balancer, and its header before the handshake.
    let refused = setup.send(None, "/things", &through)?;
    ensure!(!refused.contains("HTTP/"), "{refused}");
    let refused = setup.send(Some(&certificate), "/things", &[])?;
    ensure!(!refused.contains("HTTP/"), "{refused}");
    Ok(())
}

#[test]
fn admin_endpoint_uses_its_own_certificate() -> Result<()> {
    let authority = Authority::create(peers::folder("admin-tls")?.join("ca"))?;
    let Certificate { cert, key } = authority.issue_server()?;
    let admin = json!({"listen": "127.0.0.1:0", "tls": {"cert": cert, "key": key}});
    let gateway = Gateway::start(houses()?, json!({"admin": admin}))?;
    ensure!(gateway.base.starts_with("http://"), "{}", gateway.base);
    let address = gateway.admin.strip_prefix("https://").context("no https:// URL")?;
    let url = format!("https://{}/admin/generations", address.replace("127.0.0.1", "localhost"));
    let curl = |more: &[&str], url: &str| -> Result<String> {
        let output = Command::new("curl").args(["-sS", "-i"]).args(more).arg(url).output()?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let file = authority.file().display().to_string();
    let answer = curl(&["--cacert", &file], &url)?;
    ensure!(answer.contains(" 200") && answer.contains("generations"), "{answer}");
    let untrusted = curl(&[], &url)?;
    ensure!(!untrusted.contains(" 200"), "{untrusted}");
    let plain = curl(&[], &format!("http://{address}/healthz"))?;
    ensure!(!plain.contains(" 200"), "{plain}");
    Ok(())
}
