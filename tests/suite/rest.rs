//! A plain JSON API behind the gateway: a real one, of the npm package json-server.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use context_guard_test_support::audit::{audit_entries, audit_text, wait_for_audit};
use context_guard_test_support::gateway::{Gateway, Process, StreamedResponse, agent, get, post};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

struct Api {
    _server: Process,
    gateway: Gateway,
    direct: String,
    listings: Vec<Value>,
}

fn api() -> Result<Api> {
    let folder =
        peers::folder(&format!("rest-{:?}", std::thread::current().id()).replace(['(', ')'], ""))?;
    let listings: Vec<Value> = (0..500)
        .map(|at| {
            json!({"id": at, "title": format!("Flat {at}"), "status": if at % 2 == 0 { "active" } else { "sold" },
                "price": {"basePrice": 100 + at, "currency": "EUR"}, "description": "A quiet flat near the river, with a view of the old town. ".repeat(4)})
        })
        .collect();
    let file = folder.join("db.json");
    std::fs::write(&file, json!({"listings": listings, "profile": {"name": "x"}}).to_string())?;
    // json-server does not report a port that it chose itself, so the test picks a free one.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new("node");
    command.arg(artifacts::peers()?.join("node_modules/json-server/lib/cli/bin.js"));
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]).arg(&file);
    let server = Process::start(command, true, "Home")?;
    let direct = format!("http://127.0.0.1:{port}");
    wait_until("an answer of json-server", || Ok(get(&format!("{direct}/profile"), &[]).is_ok()))?;
    let endpoints = json!([
        {"path": "/profile", "guard": false},
        {"method": "DELETE", "path": "*", "allow": false},
        {"method": "GET", "path": "/listings*"},
        {"path": "*", "guard": false},
    ]);
    let gateway = Gateway::start(
        json!([{"name": "api", "rest": {"url": direct, "endpoints": endpoints}}]),
        json!({}),
    )?;
    Ok(Api { _server: server, gateway, direct, listings })
}

#[test]
fn every_request_to_an_api_is_audited() -> Result<()> {
    let server = ScriptedServer::from_fn(|_| ScriptedResponse::json(r#"{"a":1}"#))?;
    let endpoints = json!([
        {"method": "DELETE", "path": "*", "allow": false},
        {"path": "/raw", "guard": false},
    ]);
    let upstreams = json!([{"name": "api", "rest": {"url": server.url(), "endpoints": endpoints}}]);
    let folder = peers::folder("rest-audit")?.join("audit");
    let audit = json!({"audit": {"folder": folder, "required": true}});
    let gateway = Gateway::start(upstreams, audit)?;
    let url = |path: &str| format!("{}{path}", gateway.base);
    ensure!(post(&url("/rooms"), &[], "{}")?.status == 200);
    ensure!(get(&url("/raw"), &[])?.status == 200);
    ensure!(get(&url("/shaped"), &[])?.status == 200);
    ensure!(agent().delete(url("/rooms/7")).call()?.status().as_u16() == 403);
    ensure!(get(&url("/other"), &[("x-http-method-override", "DELETE")])?.status == 400);
    wait_for_audit(
        &folder,
        &[
            r#""endpoint":"POST /rooms","outcome":"Passed""#,
            r#""endpoint":"GET /raw","outcome":"Passed""#,
            r#""endpoint":"api::GET /shaped""#,
            "DELETE /rooms/7 is switched off",
            "x-http-method-override is refused",
        ],
    )?;
    ensure!(audit_entries(&folder)?.len() == 5, "{}", audit_text(&folder)?);
    Ok(())
}

/// Accepts the connection of the next request, and reads its beginning.
fn accept_request(listener: &TcpListener) -> Result<TcpStream> {
    // A connection without a request is a check of the gateway.
    loop {
        let mut server = listener.accept()?.0;
        if server.read(&mut [0; 4_096])? > 0 {
            return Ok(server);
        }
    }
}

#[test]
fn abandoned_requests_are_audited() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let upstreams = json!([{"name": "api", "rest": {"url": url}}]);
    let folder = peers::folder("rest-abandoned")?.join("audit");
    let audit = json!({"audit": {"folder": folder, "required": true}});
    let gateway = Gateway::start(upstreams, audit)?;
    for (method, path) in [("POST", "/rooms"), ("GET", "/guarded")] {
        let client = StreamedResponse::send_to(&gateway.base, path, method, &[], "")?;
        // The API has the request, and does not answer.
        let server = accept_request(&listener)?;
        drop(client);
        wait_for_audit(&folder, &[&format!(r#""endpoint":"{method} {path}""#)])?;
        // No answer has passed.
        let entries = audit_entries(&folder)?;
        let last = entries.last().context("no entry")?;
        ensure!(last["outcome"] == "UpstreamError", "{last}");
        drop(server);
    }
    ensure!(audit_entries(&folder)?.len() == 2, "{}", audit_text(&folder)?);
    Ok(())
}

#[test]
fn unshaped_answers_occupy_their_places() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let upstreams = json!([{"name": "api", "rest": {"url": url}}]);
    let limits = json!({"limits": {"concurrency": 1, "queue": 0}});
    let gateway = Gateway::start(upstreams, limits)?;
    let mut download = StreamedResponse::send_to(&gateway.base, "/image", "GET", &[], "")?;
    let mut server = accept_request(&listener)?;
    server.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 10\r\n\r\n12345",
    )?;
    download.read_until("12345")?;
    ensure!(get(&format!("{}/other", gateway.base), &[])?.status == 503);
    server.write_all(b"67890")?;
    download.read_until("67890")?;
    drop((server, listener));
    // The API is gone, so that an admitted request fails there.
    wait_until("a free place", || Ok(get(&format!("{}/other", gateway.base), &[])?.status == 502))?;
    Ok(())
}

#[test]
fn rest_list_is_paged() -> Result<()> {
    let api = api()?;
    let (mut found, mut query) = (Vec::new(), "limit=50&status=active&fields=all".to_owned());
    let mut pages = 0;
    loop {
        let page = get(&format!("{}/listings?{query}", api.gateway.base), &[])?;
        ensure!(
            page.status == 200 && page.header("content-type") == "application/json",
            "{}",
            page.body
        );
        let body: Value = serde_json::from_str(&page.body)?;
        found.extend(body["items"].as_array().context("no items")?.iter().cloned());
        ensure!(body["meta"]["totalCount"] == 250, "{}", body["meta"]);
        pages += 1;
        match body["nextCursor"].as_str() {
            None => break,
            Some(cursor) => {
                ensure!(
                    page.header("link").contains(cursor)
                        && page.header("x-context-guard") == "partial"
                );
                query = format!("cursor={cursor}&status=active&fields=all");
            }
        }
    }
    let active: Vec<&Value> = api.listings.iter().filter(|one| one["status"] == "active").collect();
    ensure!(
        pages > 2 && found.iter().collect::<Vec<_>>() == active,
        "{pages} pages, {} items",
        found.len()
    );
    Ok(())
}

#[test]
fn rest_queries_and_errors() -> Result<()> {
    let api = api()?;
    let at = |path: &str| get(&format!("{}{path}", api.gateway.base), &[]);
    let body = |path: &str| -> Result<Value> { Ok(serde_json::from_str(&at(path)?.body)?) };
    let fields = body("/listings?fields=id,price.basePrice&limit=2")?;
    ensure!(
        fields["items"]
            == json!([{"id": 0, "price": {"basePrice": 100}}, {"id": 1, "price": {"basePrice": 101}}]),
        "{fields}"
    );
    let ids = body("/listings?response_mode=ids_only")?;
    ensure!(ids["mode"] == "ids_only" && ids["count"] == 500, "{ids}");
    for (path, status, code) in [
        ("/listings?limit=201", 400, "bad_request"),
        ("/listings?limit=many", 400, "bad_request"),
        ("/listings?cursor=forged.cursor", 400, "cursor_invalid"),
    ] {
        let refused = at(path)?;
        ensure!(
            refused.status == status
                && refused.header("content-type") == "application/problem+json",
            "{path}: {}",
            refused.body
        );
        let problem: Value = serde_json::from_str(&refused.body)?;
        ensure!(problem["code"] == code && problem["status"] == status, "{problem}");
    }
    ensure!(at("/listings?limit=201")?.body.contains("limit exceeds maximum of 200"));
    // Small answers, unguarded paths and errors pass unchanged.
    for path in ["/profile", "/listings/7", "/nothing"] {
        let (direct, through) = (get(&format!("{}{path}", api.direct), &[])?, at(path)?);
        ensure!(
            (through.status, &through.body) == (direct.status, &direct.body),
            "{path}: {}",
            through.body
        );
    }
    let made = post(&format!("{}/listings", api.gateway.base), &[], r#"{"title":"new"}"#)?;
    ensure!(made.status == 201, "{}", made.body);
    let off = context_guard_test_support::gateway::agent()
        .delete(format!("{}/listings/7", api.gateway.base))
        .call()?;
    ensure!(off.status() == 403);
    Ok(())
}

#[test]
fn unavailable_api_is_a_problem() -> Result<()> {
    let gateway =
        Gateway::start(json!([{"name": "api", "rest": {"url": "http://127.0.0.1:9"}}]), json!({}))?;
    let gone = get(&format!("{}/listings", gateway.base), &[])?;
    ensure!(
        gone.status == 502 && gone.body.contains("upstream_unavailable"),
        "{} {}",
        gone.status,
        gone.body
    );
    Ok(())
}

#[test]
fn documented_requests_work() -> Result<()> {
    let api = api()?;
    let url = format!("{}/listings", api.gateway.base);
    let first = get(&format!("{url}?fields=id,price.basePrice&limit=2"), &[])?;
    let page: Value = serde_json::from_str(&first.body)?;
    let items =
        json!([{"id": 0, "price": {"basePrice": 100}}, {"id": 1, "price": {"basePrice": 101}}]);
    ensure!(page["items"] == items, "{page}");
    ensure!(page["meta"] == json!({"hasMore": true, "pageSize": 2, "totalCount": 500}), "{page}");
    let link = first.header("link").to_owned();
    let next = link.trim_start_matches('<').split('>').next().unwrap_or_default();
    let second = get(&format!("{}{next}", api.gateway.base), &[])?;
    ensure!(second.body.contains("\"basePrice\":102"), "{link}: {}", second.body);
    // As `curl --data-urlencode` writes it.
    let found = get(&format!("{url}?_guard_where=price.basePrice%3E%3D598&fields=id"), &[])?;
    ensure!(found.body == r#"[{"id":498},{"id":499}]"#, "{}", found.body);
    Ok(())
}
