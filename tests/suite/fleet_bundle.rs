//! Signed bundles of policy, component and keys, from every place that a gateway reads.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::{
    active_revision, admin_call, admin_config, revision_report, run_program,
};
use context_guard_test_support::peers;
use context_guard_test_support::redis::Redis;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Error, Result, artifacts, ensure};
use serde_json::{Value, json};

/// Creates bundles with one key.
pub(super) struct BundleMaker {
    folder: PathBuf,
    pub(super) public_key: String,
}

impl BundleMaker {
    pub(super) fn new(name: &str) -> Result<Self> {
        let folder = peers::folder(&format!("bundle-{name}"))?;
        let _ = std::fs::remove_file(folder.join("bundle.key"));
        let key = folder.join("bundle.key").display().to_string();
        let output = succeeded(run_program(&["bundle", "key", "--file", &key])?)?;
        let public_key = String::from_utf8(output.stdout)?.trim().to_owned();
        Ok(Self { folder, public_key })
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Creates a bundle with a number and a policy. `more` are further arguments.
    pub(super) fn create(&self, number: u64, policy: &Value, more: &[&str]) -> Result<Vec<u8>> {
        let (file, policy_file) = (self.path("new.bundle"), self.path("policy.json"));
        std::fs::write(&policy_file, policy.to_string())?;
        let (number, key) = (number.to_string(), self.path("bundle.key"));
        let mut arguments = vec!["bundle", "create", "--key", &key, "--number", &number];
        arguments.extend(["--policy", &policy_file, "--output", &file]);
        arguments.extend(more);
        succeeded(run_program(&arguments)?)?;
        Ok(std::fs::read(file)?)
    }

    /// Returns the settings of a gateway that reads its bundle at `source`.
    pub(super) fn settings(&self, source: &str) -> Value {
        json!({
            "admin": admin_config(),
            "bundle": {
                "source": source,
                "publicKeys": [self.public_key],
                "pollSeconds": 1,
                "state": "state",
            },
        })
    }
}

fn succeeded(output: Output) -> Result<Output> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

/// A web server with one file, which has an ETag.
pub(super) struct WebFile {
    pub(super) url: String,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The number of answers that the file has not changed.
    unchanged: Arc<AtomicUsize>,
}

impl WebFile {
    pub(super) fn start(bytes: Vec<u8>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/guard.bundle", listener.local_addr()?);
        let (bytes, unchanged) = (Arc::new(Mutex::new(bytes)), Arc::new(AtomicUsize::new(0)));
        let (served, counted) = (Arc::clone(&bytes), Arc::clone(&unchanged));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (served, counted) = (Arc::clone(&served), Arc::clone(&counted));
                std::thread::spawn(move || serve(stream, &served, &counted));
            }
        });
        Ok(Self { url, bytes, unchanged })
    }

    pub(super) fn set(&self, bytes: Vec<u8>) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, bytes: &Mutex<Vec<u8>>, unchanged: &AtomicUsize) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let body = bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The signature differs between bundles.
        let etag = format!(
            "\"{:x}-{}\"",
            body.len(),
            body.iter().map(|byte| u64::from(*byte)).sum::<u64>()
        );
        if head.to_ascii_lowercase().contains(&format!("if-none-match: {etag}")) {
            unchanged.fetch_add(1, Ordering::Relaxed);
            write!(stream, "HTTP/1.1 304 Not Modified\r\netag: {etag}\r\n\r\n")?;
            continue;
        }
        write!(
            stream,
            "HTTP/1.1 200 OK\r\netag: {etag}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(&body)?;
    }
}

fn houses() -> Result<Value> {
    Ok(json!([{
        "name": "houses", "command": [artifacts::property_server()?], "isolation": "shared",
    }]))
}

fn policy(budget: u64) -> Value {
    json!({"tokenBudgetThreshold": budget})
}

/// Returns the budget of the active policy.
fn budget(gateway: &Gateway) -> Result<u64> {
    let reply = admin_call(gateway, "GET", "/admin/policy", b"")?;
    let policy: Value = serde_json::from_str(&reply.body)?;
    policy["tokenBudgetThreshold"].as_u64().context("no budget")
}

/// Calls a tool until `publish` has led to revision 2. No call fails.
fn swap_under_load(gateway: &Gateway, publish: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| -> Result<usize> {
                    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
                    let mut calls = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let answer = client.call("list_bookings", json!({"limit": 20}))?;
                        ensure!(!answer.is_error(), "{}", answer.0);
                        calls += 1;
                    }
                    Ok(calls)
                })
            })
            .collect();
        let swapped = publish().and_then(|()| {
            wait_until("revision 2", || Ok(active_revision(gateway)? == 2))?;
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            let calls = caller.join().map_err(|_| Error::msg("a caller panicked"))??;
            ensure!(calls > 0, "a client made no call");
        }
        swapped
    })
}

#[test]
fn bundle_of_a_url_is_deployed_under_load() -> Result<()> {
    let maker = BundleMaker::new("url")?;
    let web = WebFile::start(maker.create(1, &policy(5_000), &[])?)?;
    let gateway = Gateway::start(houses()?, maker.settings(&web.url))?;
    ensure!(budget(&gateway)? == 5_000);
    wait_until("a request with the ETag", || Ok(web.unchanged.load(Ordering::Relaxed) > 0))?;
    // The component and the policy become one revision.
    let component = artifacts::other_component()?.display().to_string();
    let second = maker.create(2, &policy(6_000), &["--component", &component])?;
    swap_under_load(&gateway, || {
        web.set(second);
        Ok(())
    })?;
    ensure!(budget(&gateway)? == 6_000);
    let report = revision_report(&gateway)?;
    ensure!(report["generations"][0]["bundle"] == 2, "{report}");
    ensure!(report["generations"][0]["component"] != report["generations"][1]["component"]);
    Ok(())
}

#[test]
fn bundle_of_an_oci_layout_is_deployed_under_load() -> Result<()> {
    let maker = BundleMaker::new("oci")?;
    let layout = maker.path("layout");
    let _ = std::fs::remove_dir_all(&layout);
    maker.create(1, &policy(5_000), &["--oci", &layout])?;
    let gateway = Gateway::start(houses()?, maker.settings(&layout))?;
    ensure!(budget(&gateway)? == 5_000);
    swap_under_load(&gateway, || maker.create(2, &policy(6_000), &["--oci", &layout]).map(drop))?;
    ensure!(budget(&gateway)? == 6_000);
    // A faulty blob is refused, and the active revision remains.
    let index: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&layout).join("index.json"))?)?;
    let digest = index["manifests"][0]["digest"].as_str().context("no digest")?;
    let blob = digest.replace("sha256:", "blobs/sha256/");
    std::fs::write(Path::new(&layout).join(blob), "{}")?;
    gateway.process.wait_for_output(&["has another digest"])?;
    ensure!(active_revision(&gateway)? == 2);
    Ok(())
}

#[test]
fn bundle_of_a_redis_key_is_deployed_under_load() -> Result<()> {
    let redis = Redis::start("bundle", &[])?;
    let maker = BundleMaker::new("redis")?;
    let publish = |bytes: &[u8]| -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port))?;
        write!(stream, "*3\r\n$3\r\nSET\r\n$12\r\nguard-bundle\r\n${}\r\n", bytes.len())?;
        stream.write_all(bytes)?;
        stream.write_all(b"\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        ensure!(&answer == b"+OK\r\n", "{}", String::from_utf8_lossy(&answer));
        Ok(())
    };
    // A component has more than one part of a value.
    let component = artifacts::component()?.display().to_string();
    publish(&maker.create(1, &policy(5_000), &["--component", &component])?)?;
    let mut settings = maker.settings("store:guard-bundle");
    settings["store"] = json!({"url": redis.url()});
    let gateway = Gateway::start(houses()?, settings.clone())?;
    ensure!(budget(&gateway)? == 5_000);
    let second = maker.create(2, &policy(6_000), &["--component", &component])?;
    swap_under_load(&gateway, || publish(&second))?;
    ensure!(budget(&gateway)? == 6_000);
    // A replica without a state of its own knows the number from the store.
    publish(&maker.create(1, &policy(7_000), &[])?)?;
    gateway.process.wait_for_output(&["number 2 was accepted"])?;
    let refused = Gateway::start(houses()?, settings);
    let reason = refused.err().context("a replayed bundle was used")?.to_string();
    ensure!(reason.contains("number 2 was accepted before"), "{reason}");
    Ok(())
}

#[test]
fn replayed_and_forged_bundles_are_refused() -> Result<()> {
    let (maker, other) = (BundleMaker::new("replay")?, BundleMaker::new("forger")?);
    let first = maker.create(1, &policy(5_000), &[])?;
    let second = maker.create(2, &policy(6_000), &[])?;
    let web = WebFile::start(first.clone())?;
    let gateway = Gateway::start(houses()?, maker.settings(&web.url))?;
    web.set(second.clone());
    wait_until("bundle 2", || Ok(active_revision(&gateway)? == 2))?;
    let mut changed = maker.create(3, &policy(7_000), &[])?;
    let at = changed.len() - 10;
    changed[at] ^= 1;
    let cases = [
        ("number 2 was accepted before", first.clone()),
        ("verifies the bundle's signature", other.create(3, &policy(7_000), &[])?),
        ("another bundle had", maker.create(2, &policy(7_000), &[])?),
        ("not a bundle", b"<html>".to_vec()),
        ("no key in bundle.publicKeys verifies", changed),
    ];
    let refusals = |gateway: &Gateway| -> Result<u64> {
        let metrics = gateway.get_admin("/metrics")?.1;
        let line = metrics.lines().find(|line| {
            line.starts_with("context_guard_changes_total") && line.contains("\"refused\"")
        });
        Ok(line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0))
    };
    for (at, (reason, bundle)) in cases.into_iter().enumerate() {
        let before = gateway.process.output().len();
        web.set(bundle);
        let printed = || gateway.process.output().get(before..).unwrap_or_default().to_owned();
        wait_until(reason, || Ok(printed().contains(reason)))?;
        wait_until("the metric", || Ok(refusals(&gateway)? == at as u64 + 1))?;
        // The next read of the same bytes reports nothing.
        let reads = web.unchanged.load(Ordering::Relaxed);
        wait_until("another read", || Ok(web.unchanged.load(Ordering::Relaxed) > reads))?;
        ensure!(printed().matches(reason).count() == 1);
        ensure!(active_revision(&gateway)? == 2 && budget(&gateway)? == 6_000);
    }
    // The number survives a restart, and the last deployed bundle serves.
    web.set(first);
    let gateway = gateway.restart()?;
    gateway.process.wait_for_output(&["bundle 2 serves"])?;
    ensure!(budget(&gateway)? == 6_000);
    web.set(maker.create(3, &policy(8_000), &[])?);
    wait_until("bundle 3", || Ok(budget(&gateway)? == 8_000))?;
    Ok(())
}

#[test]
fn signing_keys_of_a_bundle_are_rotated() -> Result<()> {
    let maker = BundleMaker::new("keys")?;
    let (keys, secret) = (maker.path("keys.txt"), maker.path("secret"));
    std::fs::write(&keys, "the first key of the fleet\n")?;
    std::fs::write(&secret, "a secret of all the gateways\n")?;
    let more = ["--signing-keys", keys.as_str(), "--secret", secret.as_str()];
    let web = WebFile::start(maker.create(1, &policy(1_000), &more)?)?;
    let mut settings = maker.settings(&web.url);
    settings["bundle"]["secret"] = json!("a secret of all the gateways");
    settings["signingKeys"] = json!([]);
    let gateway = Gateway::start(houses()?, settings)?;
    let log = gateway.process.output();
    ensure!(!log.contains("no signing key is configured"), "{log}");
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let page = client.call("list_bookings", json!({}))?;
    let cursor = page.next_cursor().context("no cursor")?;
    std::fs::write(&keys, "the second key of the fleet\nthe first key of the fleet\n")?;
    web.set(maker.create(2, &policy(1_000), &more)?);
    let rotated = || Ok(gateway.process.output().contains("revision change: keys"));
    wait_until("new keys", rotated)?;
    let read = client.call("list_bookings", json!({"_guard": {"cursor": cursor}}))?;
    ensure!(!read.is_error(), "{}", read.0);
    // Without the secret, the gateway does not use the keys of the file instead.
    std::fs::write(&secret, "another secret of gateways\n")?;
    web.set(maker.create(3, &policy(2_000), &more)?);
    gateway.process.wait_for_output(&["another secret"])?;
    ensure!(budget(&gateway)? == 1_000);
    Ok(())
}

#[test]
fn bundle_command_verifies_as_minisign_does() -> Result<()> {
    let (maker, other) = (BundleMaker::new("command")?, BundleMaker::new("command-other")?);
    let bytes = maker.create(12, &policy(5_000), &[])?;
    let file = maker.path("guard.bundle");
    std::fs::write(&file, &bytes)?;
    let verify = |key: &str, more: &[&str]| -> Result<(Option<i32>, Value)> {
        let arguments =
            [&["bundle", "verify", &file, "--public-key", key, "--json"], more].concat();
        let output = run_program(&arguments)?;
        Ok((output.status.code(), serde_json::from_slice(&output.stdout)?))
    };
    let (code, report) = verify(&maker.public_key, &[])?;
    ensure!(code == Some(0) && report["number"] == 12, "{report}");
    ensure!(report["policy"] == policy(5_000) && report["signingKeys"] == false, "{report}");
    ensure!(verify(&maker.public_key, &["--after", "12"])?.0 == Some(4));
    ensure!(verify(&maker.public_key, &["--after", "11"])?.0 == Some(0));
    let (code, report) = verify(&other.public_key, &[])?;
    ensure!(code == Some(4) && report["valid"] == false, "{report}");
    // minisign verifies it, and its key signs bundles.
    let end = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(3);
    let (signature, payload) = bytes.split_at(end.context("no signature")?.0 + 1);
    std::fs::write(maker.path("payload"), payload)?;
    std::fs::write(maker.path("payload.minisig"), signature)?;
    let minisign = |arguments: &[&str]| -> Result<Output> {
        Ok(Command::new("minisign").current_dir(&maker.folder).args(arguments).output()?)
    };
    succeeded(minisign(&["-V", "-P", &maker.public_key, "-m", "payload"])?)?;
    succeeded(minisign(&["-G", "-W", "-f", "-p", "bundle.pub", "-s", "bundle.key"])?)?;
    let public = std::fs::read_to_string(maker.path("bundle.pub"))?;
    let public = public.lines().last().context("no key")?;
    std::fs::write(&file, maker.create(13, &policy(5_000), &[])?)?;
    ensure!(verify(public, &[])?.0 == Some(0));
    // A faulty policy is never signed.
    let faulty = maker.create(14, &json!({"tokenBudget": 1}), &[]).err();
    let reason = faulty.context("a faulty policy was signed")?.to_string();
    ensure!(reason.contains("tokenBudget"), "{reason}");
    Ok(())
}
