//! The aggregator's answers to `initialize` and `server/discover`, with the merged capabilities of
//! all upstreams.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Aggregator;
use super::client::Origin;
use super::connections::Described;
use super::translate::stateless_result;
use crate::message::{Head, SERVER_KEY, STATELESS_VERSION};
use crate::protocol_mode::{ProtocolMode, gateway_implementation, negotiate};
use crate::reply;
use crate::upstream::connection::UpstreamConnection;
use crate::upstream::server::UpstreamServer;

impl Aggregator {
    /// Answers a client's `initialize` request. Opens the connections to upstreams, except to those
    /// that start on demand and whose description is known.
    pub(super) async fn initialize(&self, origin: &Origin<'_>, head: &Head<'_>) -> Vec<u8> {
        let version = negotiate(&origin.client.info.version);
        if self.forwarder.is_transparent {
            // The result of a stateful process is that of its last handshake with such a client.
            let is_stateful =
                |one: &Arc<UpstreamServer>| one.speaks(ProtocolMode::Stateful) == Some(true);
            if self.servers().first().is_some_and(is_stateful)
                && let Some(described) = self.connections.described(origin.client, 0)
            {
                return reply::result(head.raw_id(), &described.result);
            }
            let connections = self.connections.open_all(origin.client).await;
            return match connections.into_iter().next() {
                Some((_, Ok(connection))) if connection.mode == ProtocolMode::Stateful => {
                    reply::result(head.raw_id(), &connection.server_info().result)
                }
                Some((_, Ok(connection))) => {
                    reply::result(head.raw_id(), &initialize_result(version, &connection))
                }
                Some((_, Err(failure))) => {
                    reply::error(head.raw_id(), failure.code(), &failure.to_string())
                }
                None => Vec::new(),
            };
        }
        let implementation: Value =
            serde_json::from_str(&gateway_implementation()).unwrap_or_default();
        let described = self.connections.describe_all(origin.client).await;
        let result = json!({
            "protocolVersion": version,
            "capabilities": united_capabilities(&described),
            "serverInfo": implementation,
            "instructions": self.instructions(&described),
        });
        reply::result(head.raw_id(), &result.to_string())
    }

    /// Answers a client's `server/discover` request. Opens the connections to upstreams, except to
    /// those that start on demand and whose description is known.
    pub(super) async fn discover(&self, origin: &Origin<'_>, head: &Head<'_>) -> Vec<u8> {
        let (described, implementation, instructions) = if self.forwarder.is_transparent {
            let connection = match self.connections.open_all(origin.client).await.pop() {
                Some((_, Ok(connection))) => connection,
                Some((_, Err(failure))) => {
                    return reply::error(head.raw_id(), failure.code(), &failure.to_string());
                }
                None => return Vec::new(),
            };
            let info = connection.server_info();
            if connection.mode == ProtocolMode::Stateless {
                return reply::result(head.raw_id(), &info.result);
            }
            let initialized: Value = serde_json::from_str(&info.result).unwrap_or_default();
            let implementation = initialized.get("serverInfo").cloned().unwrap_or_default();
            (vec![(0, Ok(info.clone()))], implementation, info.instructions.clone())
        } else {
            let described = self.connections.describe_all(origin.client).await;
            let implementation = serde_json::from_str(&gateway_implementation());
            let instructions = self.instructions(&described);
            (described, implementation.unwrap_or_default(), Some(instructions))
        };
        let mut capabilities = united_capabilities(&described);
        // The stateless version defines tasks as an extension.
        remove(&mut capabilities, "tasks");
        let mut result = json!({
            "supportedVersions": [STATELESS_VERSION],
            "capabilities": capabilities,
            "_meta": {SERVER_KEY: implementation},
        });
        insert_instructions(&mut result, instructions);
        reply::result(head.raw_id(), &stateless_result("server/discover", &result.to_string()))
    }
}

/// Returns the result of `initialize` for a stateful client whose only upstream is stateless.
fn initialize_result(version: &str, connection: &UpstreamConnection) -> String {
    let info = connection.server_info();
    let discovered: Value = serde_json::from_str(&info.result).unwrap_or_default();
    let implementation = discovered
        .pointer(&format!("/_meta/{}", SERVER_KEY.replace('/', "~1")))
        .or_else(|| discovered.get("serverInfo"))
        .cloned()
        .unwrap_or_else(|| json!({"name": connection.server.name, "version": "0"}));
    let mut capabilities = info.capabilities.clone();
    // Stateful versions do not define extensions.
    remove(&mut capabilities, "extensions");
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": implementation,
    });
    insert_instructions(&mut result, info.instructions.clone());
    result.to_string()
}

/// Returns the merged capabilities of all upstreams. Tools are always included, because the guard
/// has its own tool. An upstream that failed or has not answered yet counts as having all
/// capabilities, because clients read capabilities only once.
fn united_capabilities(described: &[Described]) -> Value {
    let mut all = json!({"tools": {"listChanged": true}});
    let possible = json!({
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "completions": {},
        "logging": {},
    });
    for (_, info) in described {
        unite(&mut all, info.as_ref().map_or(&possible, |info| &info.capabilities));
    }
    all
}

/// Merges `one`, the capabilities of an upstream, into `all`. A flag in the result is true if it is
/// true in either.
fn unite(all: &mut Value, one: &Value) {
    match (all, one) {
        (Value::Object(all), Value::Object(one)) => {
            for (name, value) in one {
                match all.get_mut(name) {
                    Some(known) => unite(known, value),
                    None => {
                        all.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (all @ (Value::Null | Value::Bool(false)), one) => *all = one.clone(),
        _ => {}
    }
}

fn insert_instructions(result: &mut Value, instructions: Option<String>) {
    if let (Some(instructions), Some(members)) = (instructions, result.as_object_mut()) {
        members.insert("instructions".to_owned(), instructions.into());
    }
}

fn remove(object: &mut Value, name: &str) {
    object.as_object_mut().and_then(|members: &mut Map<String, Value>| members.remove(name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol_mode::LATEST_STATEFUL_VERSION;

    #[test]
    fn capabilities_are_united() {
        let mut all = json!({"tools": {"listChanged": false}, "logging": {}});
        unite(&mut all, &json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}));
        unite(&mut all, &json!({"tools": {"listChanged": false}}));
        assert_eq!(
            all,
            json!({"tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": true}})
        );
        assert_eq!(negotiate("2025-03-26"), "2025-03-26");
        assert_eq!(negotiate("1999-01-01"), LATEST_STATEFUL_VERSION);
    }
}
