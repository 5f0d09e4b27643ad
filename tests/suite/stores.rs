//! Cursor stores: the common behaviour of all of them, including a real Redis, and the effect of an
//! unavailable store on clients.

use context_guard::clock::{Clock, ManualClock, SystemClock};
use context_guard::store::{
    CursorStore, MemoryLimits, MemoryStore, SlotRequest, StoreError, StoreOptions,
};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::guards::{NOW_MS, SIGNING_KEY};
use context_guard_test_support::operations::admin_config;
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::redis::{self, Redis, Sentinel};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, bail, ensure};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for the calls between storing an entry and reading it once.
const SHORT_TTL: Duration = Duration::from_secs(2);

/// Redis goes by the time of its own server.
fn server_time() {}

fn open(url: &str, local_bytes: usize) -> Result<Arc<dyn CursorStore>> {
    open_with(url, local_bytes, &(Arc::new(SystemClock) as Arc<dyn Clock>))
}

fn open_with(
    url: &str,
    local_bytes: usize,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn CursorStore>> {
    let options = StoreOptions {
        url,
        prefix: "suite",
        timeout: Duration::from_secs(2),
        memory_bytes: 64 << 20,
        principal_bytes: 64 << 20,
        local_bytes,
    };
    let store = context_guard::store::open(&options, clock)?;
    store.rekey(&[SIGNING_KEY]);
    Ok(store)
}

fn key(name: &str) -> String {
    name.to_owned()
}

/// Asserts what every store must do. `pass_time` lets some time pass for the store.
fn conforms(store: &Arc<dyn CursorStore>, pass_time: &dyn Fn()) -> Result<()> {
    let get = |principal: &str, keys: &[&str]| -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<String> = keys.iter().map(|name| key(name)).collect();
        let values = store.get(principal, &keys)?;
        Ok(values.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
    };
    let put = |principal: &str, name: &str, value: &[u8], ttl: Duration| {
        store.put(principal, vec![(key(name), value.to_vec())], ttl)
    };
    // Values come in the order of their keys: none for a missing key, twice for a repeated one.
    put("a", "one", b"1", MINUTE)?;
    put("a", "two", &[0, 255, 10, 13], MINUTE)?;
    put("a", "empty", b"", MINUTE)?;
    ensure!(
        get("a", &["two", "none", "one", "two", "empty"])?
            == [
                Some(vec![0, 255, 10, 13]),
                None,
                Some(b"1".to_vec()),
                Some(vec![0, 255, 10, 13]),
                Some(Vec::new())
            ]
    );
    ensure!(get("a", &[])?.is_empty());
    store.put("a", Vec::new(), MINUTE)?;
    store.extend("a", &[], MINUTE)?;
    store.delete("a", &[])?;
    // Principals are separated, whatever their names.
    put("b", "one", b"of b", MINUTE)?;
    ensure!(
        get("a", &["one"])? == [Some(b"1".to_vec())]
            && get("b", &["one", "two"])? == [Some(b"of b".to_vec()), None]
    );
    for odd in ["", "a:b", "{a}", "a b\n", "\u{e9}"] {
        put(odd, "one", odd.as_bytes(), MINUTE)?;
        ensure!(get(odd, &["one"])? == [Some(odd.as_bytes().to_vec())], "{odd:?}");
    }
    // A second put replaces the value. If one call repeats a key, the last value counts.
    store.put("a", vec![(key("one"), b"2".to_vec()), (key("one"), b"3".to_vec())], MINUTE)?;
    ensure!(get("a", &["one"])? == [Some(b"3".to_vec())]);
    // Entries expire unless they are extended. Missing keys are ignored.
    put("a", "short", b"s", SHORT_TTL)?;
    put("a", "longer", b"l", SHORT_TTL)?;
    store.extend("a", &[key("longer"), key("none")], MINUTE)?;
    ensure!(get("a", &["short", "longer"])?.iter().all(Option::is_some));
    wait_until("an expired entry", || {
        pass_time();
        Ok(get("a", &["short"])? == [None])
    })?;
    ensure!(get("a", &["longer"])? == [Some(b"l".to_vec())]);
    store.delete("a", &[key("longer"), key("none")])?;
    ensure!(get("a", &["longer"])? == [None]);
    // A snapshot of many segments.
    let segment = |at: u8| vec![at; 65_536];
    let snapshot: Vec<(String, Vec<u8>)> =
        (0..150).map(|at| (format!("snapshot.{at}"), segment(at))).collect();
    store.put("a", snapshot.clone(), MINUTE)?;
    let keys: Vec<String> = snapshot.iter().map(|(key, _)| key.clone()).collect();
    let read = store.get("a", &keys)?;
    ensure!(
        read.iter().zip(0..).all(|(value, at)| value.as_deref() == Some(segment(at).as_slice()))
    );
    // Concurrent writers.
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8u8)
            .map(|worker| {
                scope.spawn(move || -> Result<(), StoreError> {
                    for round in 0..50u8 {
                        let name = format!("{worker}-{round}");
                        store.put("many", vec![(name.clone(), vec![worker, round])], MINUTE)?;
                        let read = store.get("many", std::slice::from_ref(&name))?;
                        if !matches!(read.as_slice(), [Some(value)] if value[..] == [worker, round])
                        {
                            return Err(StoreError::Other(name));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| StoreError::Unavailable)?)
    })?;
    ensure!(store.is_up());
    Ok(())
}

/// Returns the slots of a gateway for the requests of a principal, and true if others lack some.
fn hold_slots(
    store: &Arc<dyn CursorStore>,
    (principal, holder): (&str, &str),
    [used, waiting, spare]: [u32; 3],
    lifetime: Duration,
) -> Result<(u32, bool), StoreError> {
    let holder = holder.to_owned();
    let request = SlotRequest { holder, used, waiting, spare, limit: 10, lifetime };
    let grant = store.hold_slots(principal, &request)?;
    Ok((grant.slots, grant.is_contended))
}

#[test]
fn slots_are_divided_among_gateways() -> Result<()> {
    let redis = Redis::start("slots", &[])?;
    let store = open(&redis.url(), 0)?;
    let hold = |holder, demand| hold_slots(&store, ("a", holder), demand, MINUTE);
    ensure!(hold("one", [0, 4, 3])? == (7, false));
    // The spare slots are lent until their holder asks again.
    ensure!(hold("two", [0, 8, 3])? == (3, false));
    ensure!(hold("one", [4, 0, 3])? == (4, true));
    ensure!(hold("two", [3, 5, 3])? == (6, false));
    // Three gateways with a great demand have equal parts, and one of them the rest.
    ensure!(hold("one", [4, 9, 0])? == (4, true) && hold("three", [0, 9, 0])? == (0, true));
    ensure!(hold("two", [6, 9, 0])? == (3, true) && hold("two", [3, 9, 0])? == (3, true));
    ensure!(hold("three", [0, 9, 0])? == (3, true));
    // Another principal has its own slots.
    ensure!(hold_slots(&store, ("b", "one"), [0, 10, 0], MINUTE)? == (10, false));
    // All of them are free when they are given back, or their time is over.
    ensure!(hold("one", [0, 0, 0])?.0 == 0 && hold("two", [0, 0, 0])?.0 == 0);
    ensure!(hold("three", [3, 7, 0])? == (10, false));
    ensure!(hold_slots(&store, ("c", "dead"), [0, 10, 0], SHORT_TTL)? == (10, false));
    wait_until("slots of a dead gateway", || {
        Ok(hold_slots(&store, ("c", "one"), [0, 10, 0], SHORT_TTL)? == (10, false))
    })?;
    let memory = open("memory:", 0)?;
    ensure!(hold_slots(&memory, ("a", "one"), [0, 1, 0], MINUTE) == Err(StoreError::Unavailable));
    Ok(())
}

#[test]
fn memory_store_conforms() -> Result<()> {
    let clock = Arc::new(ManualClock::at_ms(NOW_MS));
    let store = open_with("memory:", 0, &(Arc::clone(&clock) as Arc<dyn Clock>))?;
    conforms(&store, &|| clock.advance_ms(1_000))?;
    let limits = MemoryLimits { principal_bytes: 1_000, total_bytes: 1_000 };
    let small = MemoryStore::new(Arc::new(SystemClock), limits);
    ensure!(
        small.put("a", vec![(key("k"), vec![0; 2_000])], MINUTE) == Err(StoreError::QuotaExceeded)
    );
    Ok(())
}

#[test]
fn redis_store_conforms() -> Result<()> {
    let redis = Redis::start("plain", &["--requirepass", "secret"])?;
    let url = redis.url().replace("127.0.0.1", ":secret@127.0.0.1");
    conforms(&open(&url, 0)?, &server_time)?;
    conforms(&open(&url.replace("redis:", "valkey:"), 64 << 20)?, &server_time)?;
    ensure!(open(&redis.url(), 0)?.get("a", &[key("k")]).is_err(), "no password was needed");
    Ok(())
}

#[test]
fn redis_over_tls() -> Result<()> {
    let folder = peers::folder("redis-certificates")?;
    let run = |arguments: &[&str]| -> Result<()> {
        let output = Command::new("openssl").current_dir(&folder).args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    run(&[
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca",
        "-keyout", "ca.key", "-out", "ca.pem",
    ])?;
    run(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    ])?;
    std::fs::write(
        folder.join("names"),
        "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n",
    )?;
    run(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "names",
        "-out",
        "server.pem",
    ])?;
    let at = |name: &str| folder.join(name).display().to_string();
    let redis = Redis::start(
        "tls",
        &[
            "--tls-port",
            "PORT",
            "--tls-cert-file",
            &at("server.pem"),
            "--tls-key-file",
            &at("server.key"),
            "--tls-ca-cert-file",
            &at("ca.pem"),
            "--tls-auth-clients",
            "no",
        ],
    )?;
    let store = json!({"url": format!("rediss://localhost:{}/0", redis.port), "localBytes": 0});
    let authorities = at("ca.pem");
    // The store trusts the authorities of the system, which this variable names.
    let gateway = Gateway::start_with(
        houses()?,
        json!({"store": store}),
        &[("SSL_CERT_FILE", &authorities)],
    )?;
    let mut client = session(&gateway)?;
    let cursor =
        client.call("list_bookings", json!({"limit": 5}))?.next_cursor().context("no cursor")?;
    ensure!(!client.call("context_guard_read", json!({"cursor": cursor}))?.is_error());
    ensure!(gateway.get_admin("/metrics")?.1.contains("context_guard_store_up 1"));
    Ok(())
}

#[test]
fn redis_cluster_conforms() -> Result<()> {
    let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes = ["c1", "c2", "c3"].map(|name| Redis::start(name, &arguments));
    let [one, two, three] = nodes;
    let nodes = [one?, two?, three?];
    let addresses: Vec<String> =
        nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let create: Vec<&str> = ["--cluster", "create"]
        .into_iter()
        .chain(addresses.iter().map(String::as_str))
        .chain(["--cluster-yes"])
        .collect();
    nodes[0].ask(&create)?;
    wait_until("a cluster", || {
        let states: Result<Vec<String>> =
            nodes.iter().map(|node| node.ask(&["cluster", "info"])).collect();
        Ok(states?.iter().all(|state| state.contains("cluster_state:ok")))
    })?;
    let url = format!("redis-cluster://{}", addresses.join(","));
    conforms(&open(&url, 0)?, &server_time)?;
    // Principals are distributed over the nodes.
    let used = nodes.iter().map(|node| node.ask(&["dbsize"])).collect::<Result<Vec<_>>>()?;
    ensure!(used.iter().filter(|size| size.trim() != "0").count() > 1, "{used:?}");
    Ok(())
}

#[test]
fn sentinels_lead_to_the_next_master() -> Result<()> {
    let mut master = Redis::start("master", &[])?;
    let port = master.port.to_string();
    let replica = Redis::start("replica", &["--replicaof", "127.0.0.1", &port])?;
    let replication = || replica.ask(&["info", "replication"]);
    wait_until("a replica", || Ok(replication()?.contains("master_link_status:up")))?;
    let sentinel = Sentinel::start("one", &master)?;
    // A Sentinel that accepts connections and never answers, and one that does not run.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let hosts = [silent.local_addr()?.port(), redis::free_port()?, sentinel.port];
    let hosts = hosts.map(|port| format!("127.0.0.1:{port}")).join(",");
    let url = format!("redis-sentinel://{hosts}/main/0");
    conforms(&open(&url, 0)?, &server_time)?;
    let known = || {
        let output = Command::new("redis-cli")
            .args(["-p", &sentinel.port.to_string(), "sentinel", "replicas", "main"])
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(&replica.port.to_string()))
    };
    wait_until("a Sentinel that knows the replica", known)?;
    let store = json!({"url": url, "timeoutMs": 300, "localBytes": 0});
    let gateway = Gateway::start(houses()?, json!({"store": store}))?;
    let mut client = session(&gateway)?;
    let mut page = || {
        let answer = client.call("list_bookings", json!({"limit": 5}))?;
        answer.next_cursor().context("no cursor")
    };
    let before = page()?;
    ensure!(before.len() < 60, "{before} is no handle of the store");
    let size = |server: &Redis| server.ask(&["dbsize"]);
    wait_until("a copy at the replica", || Ok(size(&replica)? == size(&master)?))?;
    master.down();
    // The Sentinel closes all connections of the server that it promotes.
    wait_until("a failover", || Ok(replication().is_ok_and(|text| text.contains("role:master"))))?;
    gateway.process.wait_for_output(&["cannot be reached", "reachable again"])?;
    let after = page()?;
    for cursor in [before, after] {
        let read = session(&gateway)?.call("context_guard_read", json!({"cursor": cursor}))?;
        ensure!(!read.is_error(), "{cursor}: {}", read.0);
    }
    Ok(())
}

#[test]
fn full_or_frozen_store_fails() -> Result<()> {
    let redis = Redis::start("full", &["--maxmemory", "2mb", "--maxmemory-policy", "noeviction"])?;
    let store = open(&redis.url(), 0)?;
    let full = (0..200)
        .find_map(|at| store.put("a", vec![(format!("k{at}"), vec![0; 65_536])], MINUTE).err());
    ensure!(full == Some(StoreError::QuotaExceeded), "{full:?}");
    ensure!(
        store.get("a", &[key("k0")])?[0].is_some() && store.is_up(),
        "a full store must serve reads"
    );
    redis.freeze(true)?;
    ensure!(store.get("a", &[key("k0")]) == Err(StoreError::Unavailable));
    ensure!(!store.is_up());
    // While the store is down, only the probe waits for it. If each call waited, all together would
    // exceed the time limit of the wait.
    let calls = std::thread::spawn({
        let store = Arc::clone(&store);
        move || (0..1_000).all(|_| store.get("a", &[key("k0")]).is_err())
    });
    wait_until("the end of all calls", || Ok(calls.is_finished()))?;
    ensure!(calls.join().is_ok_and(|failed| failed), "a call succeeded");
    redis.freeze(false)?;
    wait_until("the store", || Ok(store.get("a", &[key("k0")]).is_ok()))?;
    Ok(())
}

fn houses() -> Result<Value> {
    Ok(
        json!([{"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}]),
    )
}

fn session(gateway: &Gateway) -> Result<HttpClient> {
    HttpClient::open(&gateway.url(), &[], json!({}))
}

fn bookings(answer: &Answer) -> Result<Vec<Value>> {
    let page = answer.json()?;
    let list = page["bookings"].as_array().with_context(|| answer.0.to_string())?;
    Ok(list.iter().map(|booking| booking["id"].clone()).collect())
}

/// Returns the ids of all bookings of the example server.
fn all_bookings() -> Vec<Value> {
    (0..500).map(|at| format!("BK-{at:04}").into()).collect()
}

#[test]
fn values_in_redis_are_encrypted_and_authenticated() -> Result<()> {
    let redis = Redis::start("sealed", &[])?;
    let store = json!({"url": redis.url(), "localBytes": 0});
    let gateway = Gateway::start(houses()?, json!({"store": store}))?;
    let mut client = session(&gateway)?;
    let cursor =
        client.call("list_bookings", json!({"limit": 5}))?.next_cursor().context("no cursor")?;
    let mut read = || client.call("context_guard_read", json!({"cursor": cursor}));
    ensure!(!read()?.is_error());
    let keys = redis.ask(&["--scan"])?;
    ensure!(keys.lines().count() > 1, "{keys}");
    for name in keys.lines() {
        let value = redis.ask(&["--no-raw", "get", name])?;
        ensure!(!value.contains("BK-") && !value.contains("bookings"), "{value}");
        redis.ask(&["setrange", name, "20", "PWNED"])?;
    }
    let answer = read()?;
    ensure!(answer.is_error() && answer.0.to_string().contains("cursor_expired"), "{}", answer.0);
    let metrics = gateway.get_admin("/metrics")?.1;
    let rejected = metrics.lines().find(|line| {
        line.starts_with("context_guard_store_faults_total") && line.contains("rejected")
    });
    ensure!(rejected.is_some_and(|line| !line.ends_with(" 0")), "{rejected:?}");
    Ok(())
}

#[test]
fn two_gateways_share_one_redis() -> Result<()> {
    let redis = Redis::start("two", &[])?;
    let store = json!({"store": {"url": redis.url()}});
    let gateways = [Gateway::start(houses()?, store.clone())?, Gateway::start(houses()?, store)?];
    let mut clients = [session(&gateways[0])?, session(&gateways[1])?];
    let mut answer = clients[0].call("list_bookings", json!({"limit": 40, "fields": "all"}))?;
    let mut ids = bookings(&answer)?;
    for turn in 1.. {
        let Some(cursor) = answer.next_cursor() else { break };
        answer = clients[turn % 2]
            .call("context_guard_read", json!({"cursor": cursor, "fields": "all"}))?;
        ensure!(!answer.is_error(), "{}", answer.0);
        ids.extend(bookings(&answer)?);
    }
    ensure!(ids == all_bookings(), "{} bookings", ids.len());
    // A query over the whole answer works in the gateway that did not make the call.
    let first = clients[0]
        .call("list_bookings", json!({"limit": 5}))?
        .next_cursor()
        .context("no cursor")?;
    let found =
        clients[1].call("context_guard_read", json!({"cursor": first, "aggregate": "count"}))?;
    ensure!(found.texts()[0].contains("500"), "{}", found.0);
    // Keys contain no names of principals or tools.
    let keys = redis.ask(&["--scan"])?;
    ensure!(
        keys.lines().count() > 5 && !keys.contains("anonymous") && !keys.contains("bookings"),
        "{keys}"
    );
    Ok(())
}

/// The answers that clients received, by kind.
#[derive(Debug, Default)]
struct AnswerCounts {
    pages: AtomicU64,
    replayed: AtomicU64,
    truncated: AtomicU64,
    refused: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// Reads pages of a list until `stop`.
fn reads(gateway: &Gateway, stop: &AtomicBool, counts: &AnswerCounts) -> Result<()> {
    let mut client = session(gateway)?;
    let mut cursor: Option<String> = None;
    while !stop.load(Ordering::Relaxed) {
        let replayed = cursor.as_ref().is_some_and(|cursor| cursor.len() > 150);
        let answer = match cursor.take() {
            None => client.call("list_bookings", json!({"limit": 40}))?,
            Some(cursor) => client.call("context_guard_read", json!({"cursor": cursor}))?,
        };
        let text = answer.all_texts().join("\n");
        ensure!(answer.tokens() <= 4_000, "{} tokens", answer.tokens());
        if answer.is_error()
            && (text.contains("cursor_unavailable") || text.contains("cursor_expired"))
        {
            counts.refused.fetch_add(1, Ordering::Relaxed);
        } else if text.contains("PARTIAL: the guard failed") {
            counts.truncated.fetch_add(1, Ordering::Relaxed);
        } else if !answer.is_error() && answer.metadata()["kind"] == "page" {
            let count = if replayed { &counts.replayed } else { &counts.pages };
            count.fetch_add(1, Ordering::Relaxed);
            cursor = answer.next_cursor();
        } else {
            counts
                .failures
                .lock()
                .map_err(|_| context_guard_test_support::Error::msg("poisoned"))?
                .push(text);
        }
    }
    Ok(())
}

#[test]
fn restarted_redis_fails_no_call() -> Result<()> {
    // Without local copies, only the policy can tell that a tool is read-only while the store is
    // down.
    let policy = json!({"endpoints": [{"match": "list_bookings", "readOnly": true}]});
    for (local_bytes, policy) in [(0, policy), (64 << 20, json!({}))] {
        let mut redis = Redis::start("killed", &[])?;
        let store = json!({"url": redis.url(), "timeoutMs": 300, "localBytes": local_bytes});
        let gateway = Gateway::start(
            houses()?,
            json!({"store": store, "policy": policy, "admin": admin_config()}),
        )?;
        let stop = AtomicBool::new(false);
        let phases = [AnswerCounts::default(), AnswerCounts::default(), AnswerCounts::default()];
        for (phase, counts) in phases.iter().enumerate() {
            match phase {
                1 => redis.down(),
                2 => redis.up()?,
                _ => {}
            }
            stop.store(false, Ordering::Relaxed);
            std::thread::scope(|scope| {
                let clients: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| reads(&gateway, &stop, counts))).collect();
                // Enough answers of the kind that this phase is about, or a client that gave up.
                let (answers, enough) =
                    if phase == 1 { (&counts.replayed, 20) } else { (&counts.pages, 50) };
                let waited = wait_until("enough answers", || {
                    Ok(answers.load(Ordering::Relaxed) > enough
                        || clients.iter().any(std::thread::ScopedJoinHandle::is_finished))
                });
                stop.store(true, Ordering::Relaxed);
                waited?;
                clients.into_iter().try_for_each(|client| match client.join() {
                    Ok(read) => read,
                    Err(_) => bail!("a client panicked"),
                })
            })?;
            if phase == 2 {
                wait_until("the store", || {
                    Ok(gateway.get_admin("/metrics")?.1.contains("context_guard_store_up 1"))
                })?;
            }
        }
        for (phase, counts) in ["up", "down", "restarted"].iter().zip(&phases) {
            eprintln!("local copies {local_bytes}, Redis {phase}: {counts:?}");
            ensure!(counts.failures.lock().is_ok_and(|failures| failures.is_empty()), "{counts:?}");
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [up, down, back] = &phases;
        ensure!(
            count(&up.pages) > 50
                && count(&up.refused) + count(&up.truncated) + count(&up.replayed) == 0,
            "{up:?}"
        );
        // While the store is down, lists of read-only tools are continued by calling the tool
        // again.
        ensure!(count(&down.replayed) > 20 && count(&down.truncated) == 0, "{down:?}");
        ensure!(count(&back.pages) > 50, "{back:?}");
        gateway.process.wait_for_output(&["cannot be reached", "reachable again"])?;
        let mut client = session(&gateway)?;
        let cursor = client
            .call("list_bookings", json!({"limit": 5}))?
            .next_cursor()
            .context("no cursor")?;
        ensure!(cursor.len() < 150, "{cursor}");
    }
    Ok(())
}

#[test]
fn facts_about_tools_outlive_the_data_of_redis() -> Result<()> {
    for local_bytes in [0, 64 << 20] {
        let policy = json!({"endpoints": [{"match": "list_bookings", "readOnly": true}]});
        let mut redis = Redis::start("emptied", &[])?;
        let store = json!({"url": redis.url(), "timeoutMs": 300, "localBytes": local_bytes});
        let gateway = Gateway::start(
            houses()?,
            json!({"store": store, "policy": policy, "admin": admin_config()}),
        )?;
        let store_is = |up: &str| {
            wait_until("the state of the store", || {
                let line = format!("context_guard_store_up {up}");
                Ok(gateway.get_admin("/metrics")?.1.contains(&line))
            })
        };
        let mut client = session(&gateway)?;
        client.request("tools/list", json!({}))?;
        let first = |client: &mut HttpClient| {
            let answer = client.call("list_bookings", json!({"limit": 5}))?;
            Ok::<_, context_guard_test_support::Error>((bookings(&answer)?.len(), answer))
        };
        ensure!(first(&mut client)?.0 == 5);
        let loses_data = local_bytes > 0;
        if loses_data {
            redis.down()
        } else {
            redis.freeze(true)?
        }
        let (count, answer) = first(&mut client)?;
        // While Redis is away, only local copies tell that the argument is for the guard.
        ensure!((count == 5) == (local_bytes > 0), "{local_bytes}: {count} bookings");
        let cursor = answer.next_cursor().context("no cursor")?;
        store_is("0")?;
        if loses_data {
            redis.up()?
        } else {
            redis.freeze(false)?
        }
        store_is("1")?;
        if !loses_data {
            wait_until("the facts in Redis", || Ok(first(&mut client)?.0 == 5))?;
        } else {
            // Copies of entries that can change are read again after 2 s. The emptied Redis then
            // counts reads of missing keys.
            wait_until("reads of lost entries", || {
                ensure!(first(&mut client)?.0 == 5, "limit is no longer the guard's");
                Ok(!redis.ask(&["info", "stats"])?.contains("keyspace_misses:0"))
            })?;
        }
        let next = client.call("context_guard_read", json!({"cursor": cursor}))?;
        ensure!(!next.is_error() && !bookings(&next)?.is_empty(), "{local_bytes}: {}", next.0);
        ensure!(first(&mut client)?.0 == 5, "{local_bytes}: limit is no longer the guard's");
    }
    Ok(())
}

#[test]
fn store_outage_without_replay() -> Result<()> {
    let policy = json!({"endpoints": [{"match": "list_bookings", "readOnly": false}]});
    for (local_bytes, is_cached) in [(0, false), (64 << 20, true)] {
        let mut redis = Redis::start("cut", &[])?;
        let store = json!({"url": redis.url(), "timeoutMs": 300, "localBytes": local_bytes});
        let gateway = Gateway::start(houses()?, json!({"store": store, "policy": policy}))?;
        let mut client = session(&gateway)?;
        let before = client.call("list_bookings", json!({}))?.next_cursor().context("no cursor")?;
        redis.down();
        let answer = client.call("list_bookings", json!({}))?;
        let text = answer.all_texts().join("\n");
        if is_cached {
            let cursor = answer.next_cursor().with_context(|| text.clone())?;
            for cursor in [&cursor, &before] {
                let next = client.call("context_guard_read", json!({"cursor": cursor}))?;
                ensure!(!next.is_error(), "{}", next.0);
            }
            continue;
        }
        ensure!(
            text.contains("PARTIAL") && answer.tokens() <= 6_000 && answer.cursors().is_empty(),
            "{text}"
        );
        let old = client.call("context_guard_read", json!({"cursor": before}))?;
        ensure!(old.is_error() && old.all_texts()[0].contains("cursor_unavailable"), "{}", old.0);
        redis.up()?;
        wait_until("pages", || {
            Ok(client.call("list_bookings", json!({}))?.next_cursor().is_some())
        })?;
    }
    Ok(())
}

#[test]
fn replay_without_a_store() -> Result<()> {
    let folder = peers::folder("replayed")?;
    let log = folder.join("server.log");
    let lines = |extra: &str| -> String {
        (0..3_000)
            .map(|at| format!("2026-03-01T00:00:{:02}Z INFO booking {at}\n", at % 60))
            .collect::<String>()
            + extra
    };
    std::fs::write(&log, lines(""))?;
    let files = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
    let upstreams = json!([
        {"name": "files", "command": files.0, "isolation": "shared"},
        {"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"},
    ]);
    for (store, policy) in [
        (json!({"url": "none:"}), json!({"endpoints": [{"match": "*", "readOnly": true}]})),
        (json!({"url": "memory:"}), json!({"cursorMode": "replay"})),
    ] {
        let gateway = Gateway::start(upstreams.clone(), json!({"store": store, "policy": policy}))?;
        let mut client = session(&gateway)?;
        let arguments = json!({"path": log.display().to_string()});
        // All chunks together are the file, through the reading tool and through the tool itself.
        for reader in ["context_guard_read", "files__read_text_file"] {
            let mut answer = client.call("files__read_text_file", arguments.clone())?;
            let mut whole = answer.texts().concat();
            let mut chunks = 1;
            while let Some(cursor) = answer.next_cursor() {
                let mut arguments =
                    if reader == "context_guard_read" { json!({}) } else { arguments.clone() };
                arguments
                    [if reader == "context_guard_read" { "cursor" } else { "_guard_cursor" }] =
                    cursor.into();
                answer = client.call(reader, arguments)?;
                ensure!(!answer.is_error(), "{}", answer.0);
                whole.push_str(&answer.texts().concat());
                chunks += 1;
            }
            ensure!(
                whole == lines("") && chunks > 5,
                "{reader}: {chunks} chunks, {} bytes",
                whole.len()
            );
        }
        let mut answer =
            client.call("houses__list_bookings", json!({"limit": 50, "fields": "all"}))?;
        let mut ids = bookings(&answer)?;
        let cursor = answer.next_cursor().context("no cursor")?;
        while let Some(cursor) = answer.next_cursor() {
            answer =
                client.call("context_guard_read", json!({"cursor": cursor, "fields": "all"}))?;
            ids.extend(bookings(&answer)?);
        }
        ensure!(ids == all_bookings(), "{} bookings", ids.len());
        // Queries over the whole list work as long as their result fits.
        let counted = client.call(
            "context_guard_read",
            json!({"cursor": cursor, "aggregate": "count by status"}),
        )?;
        ensure!(!counted.is_error() && counted.texts()[0].contains("confirmed"), "{}", counted.0);
        let much =
            client.call("context_guard_read", json!({"cursor": cursor, "where": "nights>=1"}))?;
        ensure!(much.is_error() && much.all_texts()[0].contains("Ask for less"), "{}", much.0);
        // A forged cursor is refused before any call.
        let forged =
            client.call("context_guard_read", json!({"cursor": cursor.replacen('a', "b", 1)}))?;
        ensure!(
            forged.is_error() && forged.all_texts()[0].contains("cursor_invalid"),
            "{}",
            forged.0
        );
        let cursor = client
            .call("files__read_text_file", arguments.clone())?
            .next_cursor()
            .context("no cursor")?;
        std::fs::write(&log, lines("2026-03-01T00:01:00Z INFO one more\n"))?;
        let changed = client.call("context_guard_read", json!({"cursor": cursor}))?;
        ensure!(
            changed.is_error() && changed.all_texts()[0].contains("data_changed"),
            "{}",
            changed.0
        );
        std::fs::write(&log, lines(""))?;
    }
    Ok(())
}
