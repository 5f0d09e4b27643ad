//! The sources of a gateway change independently: gateway file, policy, component, signing keys.

use context_guard::engine;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::{
    TOKEN, active_revision, admin_call, admin_config, replace_file, revision_report, run_program,
};
use context_guard_test_support::peers;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A gateway whose sources are files.
struct Files {
    folder: PathBuf,
    gateway: Gateway,
    /// The number of the last policy, of the last keys, and of the last component that is compiled.
    last: u64,
    /// The number of the component: 0 or 1, which are compiled once for all tests.
    component: u64,
}

impl Files {
    fn start(name: &str) -> Result<Self> {
        let folder = peers::folder(name)?;
        // Numbers that no earlier run had: the cache must not have their components.
        let last = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 / 1_000;
        write_component(&folder, 0)?;
        std::fs::write(folder.join("policy.yaml"), "tokenBudgetThreshold: 4000\n")?;
        std::fs::write(folder.join("key"), "the first key of this test")?;
        let gateway = Gateway::start(
            json!([{"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}]),
            json!({
                "admin": admin_config(),
                "policy": folder.join("policy.yaml"),
                "component": {"file": folder.join("guard.wasm"), "require": "checksum"},
                "signingKeys": [format!("${{file:{}}}", folder.join("key").display())],
            }),
        )?;
        Ok(Self { folder, gateway, last, component: 0 })
    }

    fn source(&self, name: &str) -> Result<Value> {
        let reply = admin_call(&self.gateway, "GET", "/admin/sources", b"")?;
        let report: Value = serde_json::from_str(&reply.body)?;
        let mut all = report["sources"].as_array().into_iter().flatten();
        all.find(|source| source["source"] == name).cloned().with_context(|| report.to_string())
    }

    fn wait_for(&self, name: &str, state: &str) -> Result<()> {
        wait_until(&format!("{name} {state}"), || Ok(self.source(name)?["state"] == state))?;
        Ok(())
    }

    fn table(&self) -> Result<String> {
        let shown = run_program(&["revisions", "--admin", &self.gateway.admin, "--token", TOKEN])?;
        Ok(String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    fn key_changes(&self) -> Result<u64> {
        let metrics = self.gateway.get_admin("/metrics")?.1;
        let count = metrics
            .lines()
            .find_map(|line| line.strip_prefix("context_guard_changes_total{event=\"keys\"} "));
        Ok(count.map(str::parse).transpose()?.unwrap_or_default())
    }

    fn change_policy(&mut self) -> Result<()> {
        self.last += 1;
        let tokens = 4_000 + self.last % 4_000;
        let policy = format!("tokenBudgetThreshold: {tokens}\n");
        replace_file(&self.folder.join("policy.yaml"), policy.as_bytes())?;
        wait_until("the new policy", || {
            let policy = admin_call(&self.gateway, "GET", "/admin/policy", b"")?.body;
            Ok(policy == format!("{{\"tokenBudgetThreshold\":{tokens}}}"))
        })?;
        Ok(())
    }

    fn change_component(&mut self) -> Result<()> {
        self.component = 1 - self.component;
        let digest = write_component(&self.folder, self.component)?;
        wait_until("the new component", || Ok(active_component(&self.gateway)? == digest))?;
        Ok(())
    }

    fn change_keys(&mut self) -> Result<()> {
        self.last += 1;
        let before = self.key_changes()?;
        let key = format!("the key {} of this test", self.last);
        replace_file(&self.folder.join("key"), key.as_bytes())?;
        wait_until("the new key", || Ok(self.key_changes()? > before))?;
        Ok(())
    }
}

fn active_component(gateway: &Gateway) -> Result<String> {
    let report = revision_report(gateway)?;
    let mut all = report["generations"].as_array().into_iter().flatten();
    let active = all.find(|one| one["state"] == "active");
    Ok(active.and_then(|one| one["component"].as_str()).context("no digest")?.to_owned())
}

/// Writes a component with its checksum, and returns its digest. Another number gives another
/// digest; the behaviour is the same.
fn write_component(folder: &Path, number: u64) -> Result<String> {
    // A custom section has the id 0, its length, and a name with its length.
    let section = [b"\x00\x10\x07variant".as_slice(), &number.to_le_bytes()].concat();
    let bytes = [std::fs::read(artifacts::component()?)?, section].concat();
    let digest = engine::digest(&bytes);
    replace_file(&folder.join("guard.wasm"), &bytes)?;
    replace_file(&folder.join("guard.wasm.sha256"), format!("{digest}  guard.wasm\n").as_bytes())?;
    Ok(digest)
}

#[test]
fn broken_source_does_not_block_others() -> Result<()> {
    let mut files = Files::start("sources-broken")?;
    ensure!(files.source("policy")?["state"] == "in use");

    std::fs::write(files.folder.join("policy.yaml"), "tokenBudgetThreshold: [\n")?;
    files.wait_for("policy", "refused")?;
    files.change_component()?;
    files.change_keys()?;
    let table = files.table()?;
    ensure!(
        table.contains("policy.yaml differs from the active one (refused: "),
        "the drift is missing: {table}"
    );
    files.change_policy()?;
    files.wait_for("policy", "in use")?;

    let checksum = files.folder.join("guard.wasm.sha256");
    let right = std::fs::read(&checksum)?;
    std::fs::write(&checksum, format!("{}  guard.wasm\n", "0".repeat(64)))?;
    files.wait_for("component", "refused")?;
    files.change_keys()?;
    files.change_policy()?;
    let reload = admin_call(&files.gateway, "POST", "/admin/reload", b"")?;
    ensure!(reload.status == 422 && reload.body.contains("SHA-256"), "{}", reload.body);
    std::fs::write(&checksum, right)?;
    files.wait_for("component", "in use")?;

    std::fs::write(files.folder.join("key"), "short")?;
    files.wait_for("signing keys", "refused")?;
    files.change_policy()?;
    files.change_component()?;
    std::fs::remove_file(files.folder.join("key"))?;
    files.change_policy()?;
    files.change_keys()?;
    files.wait_for("signing keys", "in use")?;

    let settings = files.gateway.folder.join("gateway.json");
    let right = std::fs::read(&settings)?;
    std::fs::write(&settings, "{\"upstreams\": [")?;
    files.wait_for("gateway file", "refused")?;
    files.change_keys()?;
    files.change_policy()?;
    files.change_component()?;
    std::fs::write(&settings, right)?;
    files.wait_for("gateway file", "in use")?;
    ensure!(!files.table()?.contains("on disk:"), "{}", files.table()?);
    Ok(())
}

#[test]
fn policy_and_keys_do_not_wait_for_component() -> Result<()> {
    let mut files = Files::start("sources-pending")?;
    files.last += 1;
    let digest = write_component(&files.folder, files.last)?;
    files.wait_for("component", "pending")?;
    files.change_keys()?;
    files.change_policy()?;
    // The policy is revision 2, so it did not wait: the component is written first.
    let report = revision_report(&files.gateway)?;
    ensure!(report["active"] == 2 && active_component(&files.gateway)? != digest, "{report}");
    wait_until("the component", || Ok(active_component(&files.gateway)? == digest))?;
    ensure!(active_revision(&files.gateway)? == 3);
    Ok(())
}

#[test]
fn newest_component_supersedes_earlier_ones() -> Result<()> {
    let mut files = Files::start("sources-newest")?;
    let mut digests = Vec::new();
    for _ in 0..4 {
        files.last += 1;
        digests.push(write_component(&files.folder, files.last)?);
        files.wait_for("component", "pending")?;
    }
    let newest = digests.pop().context("no digest")?;
    wait_until("the newest component", || Ok(active_component(&files.gateway)? == newest))?;
    let report = revision_report(&files.gateway)?.to_string();
    ensure!(digests.iter().all(|digest| !report.contains(digest)), "{report}");
    Ok(())
}

#[test]
fn rollback_survives_restart() -> Result<()> {
    let mut files = Files::start("sources-rollback")?;
    let good = active_component(&files.gateway)?;
    let budget = |gateway: &Gateway| -> Result<f64> {
        let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
        let answer = client.call("list_bookings", json!({}))?;
        let of = |name: &str| answer.metadata()[name].as_f64().unwrap_or_default();
        Ok(of("estimatedTokens") + of("budgetRemaining"))
    };
    files.change_policy()?;
    files.change_component()?;
    let bad = active_component(&files.gateway)?;
    let back = admin_call(&files.gateway, "POST", "/admin/rollback", b"{\"to\": 1}")?;
    ensure!(back.status == 200, "{}", back.body);
    ensure!(files.source("policy")?["state"] == "rolled back", "{}", files.source("policy")?);
    let Files { gateway, folder, last, component } = files;
    let mut files = Files { gateway: gateway.restart()?, folder, last, component };
    ensure!(active_component(&files.gateway)? == good && good != bad);
    ensure!(budget(&files.gateway)? == 4_000.0, "{}", budget(&files.gateway)?);
    files.gateway.process.wait_for_output(&["was rolled back before this start"])?;
    ensure!(files.table()?.contains("policy.yaml differs from the active one (rolled back: "));
    // A changed file is deployed, and an operator can deploy the same again.
    files.change_policy()?;
    let again = admin_call(&files.gateway, "POST", "/admin/reload", b"")?;
    ensure!(again.status == 200 && active_component(&files.gateway)? == bad, "{}", again.body);
    let Files { gateway, .. } = files;
    let gateway = gateway.restart()?;
    ensure!(active_component(&gateway)? == bad && budget(&gateway)? != 4_000.0);
    Ok(())
}
