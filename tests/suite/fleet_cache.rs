//! The cache of answers that replicas share.

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::{admin_call, admin_config};
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::redis::Redis;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Result, ensure};
use serde_json::json;

use super::fleet::Replicas;

/// Reads the first lines of a file with a tool that is read-only. Another number of lines is
/// another call.
fn read(gateway: &Gateway, file: &str, lines: usize) -> Result<String> {
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let answer = client.call("read_text_file", json!({"path": file, "head": lines}))?;
    ensure!(!answer.is_error(), "{}", answer.0);
    Ok(answer.texts().concat())
}

/// Returns the keys of the answers in Redis.
fn stored(redis: &Redis) -> Result<Vec<String>> {
    let keys = redis.ask(&["--scan", "--pattern", "*answer-*"])?;
    Ok(keys.lines().map(str::to_owned).collect())
}

#[test]
fn cached_answer_is_served_by_another_replica() -> Result<()> {
    let redis = Redis::start("fleet-cache", &[])?;
    let folder = peers::folder("fleet-cache-files")?;
    let path = folder.join("a.txt");
    let file = path.display().to_string();
    let files = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
    let upstreams = json!([{"name": "files", "command": files.0, "isolation": "shared"}]);
    let settings = json!({"admin": admin_config(), "cache": {"shared": true}});
    let replicas = Replicas::start(upstreams, &redis, &settings)?;
    let [first, second, third] = &replicas.running[..] else { return Ok(()) };
    // Answers of the first seconds are not shared, because purges may have been missed.
    let mut lines = 0;
    wait_until("a shared answer", || {
        lines += 1;
        std::fs::write(&path, "one\n")?;
        ensure!(read(first, &file, lines)?.contains("one"));
        wait_until("an answer in Redis", || Ok(stored(&redis)?.len() >= lines))?;
        std::fs::write(&path, "two\n")?;
        Ok(read(second, &file, lines)?.contains("one")
            && read(third, &file, lines)?.contains("one"))
    })?;
    // Another principal has no part in it.
    let headers = [("authorization", "Bearer of somebody else")];
    let mut stranger = HttpClient::open(&second.url(), &headers, json!({}))?;
    let answer = stranger.call("read_text_file", json!({"path": file, "head": lines}))?;
    ensure!(answer.texts().concat().contains("two"), "the answer of another principal was given");
    // What one replica removes, no replica serves.
    let purged = admin_call(third, "POST", "/admin/cache/purge", b"{}")?;
    ensure!(purged.status == 200, "{}", purged.body);
    wait_until("the purge", || Ok(read(second, &file, lines)?.contains("two")))?;
    wait_until("the purge", || Ok(read(first, &file, lines)?.contains("two")))?;
    for key in stored(&redis)? {
        let value = redis.ask(&["--no-raw", "getrange", &key, "0", "-1"])?;
        ensure!(!value.contains("content") && !value.contains("two"), "an answer is readable");
    }
    Ok(())
}

#[test]
fn frozen_redis_delays_no_cached_call() -> Result<()> {
    let redis = Redis::start("fleet-cache-frozen", &[])?;
    let folder = peers::folder("fleet-cache-frozen-files")?;
    let path = folder.join("a.txt");
    let file = path.display().to_string();
    std::fs::write(&path, "one\n")?;
    let files = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
    let upstreams = json!([{"name": "files", "command": files.0, "isolation": "shared"}]);
    let settings = json!({"admin": admin_config(), "cache": {"shared": true}});
    let replicas = Replicas::start(upstreams, &redis, &settings)?;
    let first = &replicas.running[0];
    ensure!(read(first, &file, 1)?.contains("one"));
    redis.freeze(true)?;
    for lines in 2..20 {
        ensure!(read(first, &file, lines)?.contains("one"));
    }
    wait_until("a frozen server", || {
        Ok(first.get_admin("/metrics")?.1.contains("context_guard_store_up 0"))
    })?;
    redis.freeze(false)?;
    ensure!(read(first, &file, 20)?.contains("one"));
    Ok(())
}
