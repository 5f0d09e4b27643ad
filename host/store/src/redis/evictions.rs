//! Counts the entries that a server has evicted before they expire.

use std::sync::Weak;
use std::time::Duration;

use redis::Value;

use super::Remote;

/// The time between two checks for entries that the server has evicted.
const EVICTION_INTERVAL: Duration = Duration::from_secs(10);

/// Reports the number of entries that the server has evicted, at intervals, until the store is
/// dropped.
pub(super) async fn watch(remote: Weak<Remote>) {
    let mut last = None;
    loop {
        tokio::time::sleep(EVICTION_INTERVAL).await;
        let Some(remote) = remote.upgrade() else { return };
        // A gateway that stores nothing does not connect.
        if !remote.health.is_up() || remote.connection.lock().await.is_none() {
            continue;
        }
        let mut info = redis::pipe();
        info.cmd("INFO").arg("stats");
        let Ok(answer) = remote.query::<Value>(&info).await else { continue };
        let now = evicted_keys(&answer);
        // A restarted server counts from zero.
        remote.health.evicted(last.map_or(0, |last| now.saturating_sub(last)));
        last = Some(now);
    }
}

/// Returns the total number of evicted keys in the answers of one or several nodes.
fn evicted_keys(answer: &Value) -> u64 {
    let count = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    match answer {
        Value::BulkString(bytes) => count(&String::from_utf8_lossy(bytes)),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => count(text),
        Value::Array(answers) => answers.iter().map(evicted_keys).sum(),
        Value::Map(answers) => answers.iter().map(|(_, answer)| evicted_keys(answer)).sum(),
        _ => 0,
    }
}
