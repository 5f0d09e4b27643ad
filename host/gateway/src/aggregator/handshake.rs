//! How the aggregator introduces itself: `initialize` and `server/discover`, with what all upstreams can do together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::translate::stateless_result;
use super::{Aggregator, Ask, Client};
use crate::gateway::upstream::Failure;
use crate::gateway::upstream::connection::{
    LATEST_STATEFUL_VERSION, ProtocolMode, UpstreamConnection, own_info,
};
use crate::gateway::wire::reply;
use crate::message::{Head, MODERN, SERVER_KEY};

/// Revisions of the stateful mode.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", LATEST_STATEFUL_VERSION];
/// How long a greeting, or a list, waits for upstreams that are slow. Of a list, those that come later are announced.
pub(super) const TIMEOUT: Duration = Duration::from_secs(8);

/// The revision of the stateful mode that a client gets which asks for this one.
pub(super) fn negotiated(asked: &str) -> &str {
    REVISIONS.into_iter().find(|known| *known == asked).unwrap_or(LATEST_STATEFUL_VERSION)
}

/// An upstream and its connection, or why there is none.
pub(super) type Opened = (usize, Result<Arc<UpstreamConnection>, Failure>);

impl Aggregator {
    /// Connections to all upstreams, as far as they are there in time.
    pub(super) async fn open_all(self: &Arc<Self>, client: &Client) -> Vec<Opened> {
        let opening = (0..self.servers.len()).map(|server| async move {
            let opened = tokio::time::timeout(TIMEOUT, self.connection(client, server)).await;
            let opened = opened.unwrap_or_else(|_| {
                let name = self.servers.get(server).map_or("", |server| server.name.as_str());
                Err(Failure::Timeout(format!("The upstream `{name}` is still starting.")))
            });
            (server, opened)
        });
        join_all(opening).await
    }

    /// The answer to `initialize`.
    pub(super) async fn initialize(self: &Arc<Self>, ask: &Ask<'_>, head: &Head<'_>) -> Vec<u8> {
        let connections = self.open_all(ask.client).await;
        if self.is_plain() {
            return match connections.into_iter().next() {
                Some((_, Ok(connection))) if connection.mode == ProtocolMode::Stateful => {
                    reply::result(head.raw_id(), &connection.server_info().result)
                }
                Some((_, Ok(connection))) => {
                    reply::result(head.raw_id(), &self.stateful_result(ask, &connection))
                }
                Some((_, Err(failure))) => {
                    reply::error(head.raw_id(), failure.code(), &failure.to_string())
                }
                None => Vec::new(),
            };
        }
        let mut result = json!({
            "protocolVersion": negotiated(&ask.client.info.version),
            "capabilities": self.capabilities(&connections),
            "serverInfo": serde_json::from_str::<Value>(&own_info()).unwrap_or_default(),
        });
        if let Some(members) = result.as_object_mut() {
            members.insert("instructions".to_owned(), self.instructions(&connections).into());
        }
        reply::result(head.raw_id(), &result.to_string())
    }

    /// A stateless upstream as a stateful client is introduced to it.
    fn stateful_result(&self, ask: &Ask<'_>, connection: &UpstreamConnection) -> String {
        let discovered: Value =
            serde_json::from_str(&connection.server_info().result).unwrap_or_default();
        let info = discovered
            .pointer(&format!("/_meta/{}", SERVER_KEY.replace('/', "~1")))
            .or_else(|| discovered.get("serverInfo"))
            .cloned()
            .unwrap_or_else(|| json!({"name": connection.server.name, "version": "0"}));
        let mut result = json!({
            "protocolVersion": negotiated(&ask.client.info.version),
            "capabilities": stateful_capabilities(connection.server_info().capabilities.clone()),
            "serverInfo": info,
        });
        if let (Some(instructions), Some(members)) =
            (&connection.server_info().instructions, result.as_object_mut())
        {
            members.insert("instructions".to_owned(), instructions.as_str().into());
        }
        result.to_string()
    }

    /// The answer to `server/discover`.
    pub(super) async fn discover(self: &Arc<Self>, ask: &Ask<'_>, head: &Head<'_>) -> Vec<u8> {
        let connections = self.open_all(ask.client).await;
        let plain = connections.first().filter(|_| self.is_plain());
        if let Some((_, Ok(connection))) = plain
            && connection.mode == ProtocolMode::Stateless
        {
            return reply::result(head.raw_id(), &connection.server_info().result);
        }
        let (info, instructions) = match plain {
            Some((_, Err(failure))) => {
                return reply::error(head.raw_id(), failure.code(), &failure.to_string());
            }
            Some((_, Ok(connection))) => {
                let result: Value =
                    serde_json::from_str(&connection.server_info().result).unwrap_or_default();
                let info = result.get("serverInfo").cloned().unwrap_or_default();
                (info, connection.server_info().instructions.clone())
            }
            None => (
                serde_json::from_str(&own_info()).unwrap_or_default(),
                Some(self.instructions(&connections)),
            ),
        };
        let mut result = json!({
            "supportedVersions": [MODERN],
            "capabilities": stateless_capabilities(self.capabilities(&connections)),
            "_meta": {SERVER_KEY: info},
        });
        if let (Some(instructions), Some(members)) = (instructions, result.as_object_mut()) {
            members.insert("instructions".to_owned(), instructions.into());
        }
        reply::result(head.raw_id(), &stateless_result("server/discover", &result.to_string()))
    }

    /// What all can do together. There are tools in any case: the guard's own.
    fn capabilities(&self, connections: &[Opened]) -> Value {
        let mut all = json!({"tools": {"listChanged": true}});
        for (_, connection) in connections {
            if let Ok(connection) = connection {
                unite(&mut all, &connection.server_info().capabilities);
            }
        }
        all
    }

    fn instructions(&self, connections: &[Opened]) -> String {
        let mut text = format!(
            "A gateway to several servers. {}",
            if self.router.prefixed {
                "Names of tools and prompts begin with the server's: server__tool."
            } else {
                ""
            }
        );
        for (server, connection) in connections {
            let Some(server) = self.servers.get(*server) else { continue };
            match connection {
                Ok(connection) => {
                    if let Some(instructions) = &connection.server_info().instructions {
                        text.push_str(&format!("\n\n# {}\n{instructions}", server.name));
                    }
                }
                Err(failure) => {
                    text.push_str(&format!("\n\n# {}\nNot available now: {failure}", server.name));
                }
            }
        }
        text
    }
}

/// Adds what one can to what all can: of two flags the one that is set.
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

/// Capabilities that the stateful mode does not know stand aside, and the other way round.
fn stateful_capabilities(mut capabilities: Value) -> Value {
    remove(&mut capabilities, "extensions");
    capabilities
}

fn stateless_capabilities(mut capabilities: Value) -> Value {
    remove(&mut capabilities, "tasks");
    capabilities
}

fn remove(object: &mut Value, name: &str) {
    if let Some(members) = object.as_object_mut() {
        let members: &mut Map<String, Value> = members;
        members.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_all_are_united() {
        let mut all = json!({"tools": {"listChanged": false}, "logging": {}});
        unite(&mut all, &json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}));
        unite(&mut all, &json!({"tools": {"listChanged": false}}));
        assert_eq!(
            all,
            json!({"tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": true}})
        );
        assert_eq!(negotiated("2025-03-26"), "2025-03-26");
        assert_eq!(negotiated("1999-01-01"), LATEST_STATEFUL_VERSION);
    }
}
