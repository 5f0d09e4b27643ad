//! Lists of all upstreams as one: each upstream's in its own order, the upstreams in that of the configuration, cut into pages by cursors of the gateway's own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::event_streams::COMMON;
use super::handshake::TIMEOUT;
use super::translate::stateless_result;
use super::{Aggregator, Ask, Client};
use crate::gateway::upstream::Failure;
use crate::gateway::upstream::connection::ProtocolMode;
use crate::gateway::wire::reply;
use crate::message::{Head, append, member, members, with_member};

/// How long it is known that the guard has learnt an upstream's tools. It keeps them longer.
const LEARNT: Duration = Duration::from_secs(600);
/// Pages that an upstream's list may have.
const PAGES: usize = 200;
/// The guard's own tool, and its name where an upstream has one of that name.
pub(super) const READ_TOOLS: [&str; 2] = ["context_guard_read", "context_guard_read_more"];
/// Where it is said which upstreams are missing.
const MISSING: &str = "dev.context-guard/upstreams";

/// A kind of list.
pub(super) struct List {
    pub(super) method: &'static str,
    member: &'static str,
    key: &'static str,
    capability: &'static str,
    changed: &'static str,
}

/// The lists that are merged.
pub(super) const LISTS: [List; 5] = [
    List {
        method: "tools/list",
        member: "tools",
        key: "name",
        capability: "tools",
        changed: "notifications/tools/list_changed",
    },
    List {
        method: "prompts/list",
        member: "prompts",
        key: "name",
        capability: "prompts",
        changed: "notifications/prompts/list_changed",
    },
    List {
        method: "resources/list",
        member: "resources",
        key: "uri",
        capability: "resources",
        changed: "notifications/resources/list_changed",
    },
    List {
        method: "resources/templates/list",
        member: "resourceTemplates",
        key: "uriTemplate",
        capability: "resources",
        changed: "notifications/resources/list_changed",
    },
    List { method: "tasks/list", member: "tasks", key: "taskId", capability: "tasks", changed: "" },
];

/// An entry: what tells it apart, and all of it.
struct Entry {
    key: String,
    json: String,
}

impl Aggregator {
    /// The merged list, or the page of it that a cursor names.
    pub(super) async fn merged(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        head: &Head<'_>,
        list: &'static List,
    ) -> Vec<u8> {
        let meta = head.parameters().meta;
        let fetching = (0..self.servers.len()).map(|server| async move {
            let fetched = tokio::time::timeout(TIMEOUT, self.fetch(ask, server, list, meta)).await;
            fetched.unwrap_or_else(|_| {
                self.announce_later(ask.client, server, list);
                Err(Failure::Timeout(format!("no answer within {} s", TIMEOUT.as_secs())))
            })
        });
        let (mut entries, mut missing, mut own) = (Vec::new(), Vec::new(), None);
        for (server, fetched) in join_all(fetching).await.into_iter().enumerate() {
            match fetched {
                Ok((listed, reader)) => {
                    own = own.or(reader);
                    entries.extend(
                        listed.into_iter().map(|entry| self.to_client_name(server, list, entry)),
                    );
                }
                Err(failure) => missing.push(json!({
                    "name": self.servers.get(server).map(|server| server.name.clone()),
                    "reason": failure.to_string(),
                })),
            }
        }
        let from = match head.parameters().cursor {
            None => 0,
            Some(cursor) => match position(&cursor, &entries) {
                Some(from) => from,
                None => {
                    return reply::error(
                        head.raw_id(),
                        reply::INVALID_PARAMS,
                        "Invalid cursor: list again from the start.",
                    );
                }
            },
        };
        let shown = entries.iter().skip(from).take(self.list_page);
        let mut page: Vec<&str> = shown.map(|entry| entry.json.as_str()).collect();
        let next = from + page.len();
        if from == 0 {
            page.extend(own.as_deref());
        }
        let mut result = format!(r#"{{"{}":[{}]}}"#, list.member, page.join(","));
        if next < entries.len() {
            let last = next.checked_sub(1).and_then(|last| entries.get(last));
            let cursor = json!([next, last.map(|entry| &entry.key)]).to_string();
            let cursor = Value::from(URL_SAFE_NO_PAD.encode(cursor));
            result = append(&result, &format!(r#""nextCursor":{cursor}"#));
        }
        if !missing.is_empty() {
            let meta = json!({MISSING: {"unavailable": missing}});
            result = append(&result, &format!(r#""_meta":{meta}"#));
        }
        if ask.client.mode == ProtocolMode::Stateless {
            result = stateless_result(list.method, &result);
        }
        reply::result(head.raw_id(), &result)
    }

    /// Has the guard learn an upstream's tools before the first call of one: a client may know them from an earlier day, the guard has to know which arguments are
    /// the tools' own.
    pub(super) async fn learn_tools(self: &Arc<Self>, ask: &Ask<'_>, server: usize) {
        let Some(list) = LISTS.first() else { return };
        let known = (Arc::clone(&ask.client.scope), server);
        let learnt = self.tool_lists().get(&known).is_some_and(|since| since.elapsed() < LEARNT);
        if learnt {
            return;
        }
        let meta = (ask.client.mode == ProtocolMode::Stateless)
            .then(|| format!("{{{}}}", ask.client.info.meta()));
        let meta = meta.and_then(|meta| RawValue::from_string(meta).ok());
        // What comes of it shows in the call itself.
        let _ = tokio::time::timeout(TIMEOUT, self.fetch(ask, server, list, meta.as_deref())).await;
    }

    /// All entries of an upstream's list, and the guard's own tool apart.
    async fn fetch(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        server: usize,
        list: &'static List,
        meta: Option<&RawValue>,
    ) -> Result<(Vec<Entry>, Option<String>), Failure> {
        let (mut entries, mut own, mut cursor) = (Vec::new(), None, None::<String>);
        let connection = self.connection(ask.client, server).await?;
        if !connection.server_info().can(list.capability) {
            return Ok((entries, own));
        }
        // What an upstream says while it lists belongs to nobody's request.
        let (out, _ignored) = mpsc::unbounded_channel();
        let ask = Ask { client: ask.client, out: &out };
        let mut seen = HashSet::new();
        for _ in 0..PAGES {
            let mut params = String::from("{}");
            if let Some(cursor) = &cursor {
                params = append(&params, &format!(r#""cursor":{cursor}"#));
            }
            if let Some(meta) = meta {
                params = append(
                    &params,
                    &format!(r#""_meta":{}"#, with_member(meta.get(), "progressToken", None)),
                );
            }
            let request = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"{}","params":{params}}}"#,
                list.method
            );
            let answer = self.exchange(&ask, server, request.into_bytes()).await;
            if list.method == "tools/list" {
                self.tool_lists().put((Arc::clone(&ask.client.scope), server), Instant::now());
            }
            let head = Head::read(&answer);
            let Some(result) = head.as_ref().and_then(|head| head.result) else {
                let error = head.and_then(|head| head.error).map_or("no answer", RawValue::get);
                return Err(Failure::Unavailable(error.to_owned()));
            };
            let result = members(result);
            let found =
                |name: &str| result.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
            let listed: Vec<&RawValue> = found(list.member)
                .and_then(|all| serde_json::from_str(all.get()).ok())
                .unwrap_or_default();
            for entry in listed {
                let key = key(entry, list);
                // The guard's tool is the last of the first page, and there once for all upstreams.
                if list.method == "tools/list"
                    && cursor.is_none()
                    && READ_TOOLS.contains(&key.as_str())
                {
                    own = Some(with_member(
                        entry.get(),
                        "name",
                        Some(&Value::from(READ_TOOLS[0]).to_string()),
                    ));
                    continue;
                }
                entries.push(Entry { key, json: entry.get().to_owned() });
            }
            cursor = found("nextCursor").map(|cursor| cursor.get().to_owned());
            match &cursor {
                Some(cursor) if cursor != "null" && seen.insert(cursor.clone()) => {}
                _ => break,
            }
        }
        Ok((entries, own))
    }

    /// An entry as clients see it.
    fn to_client_name(&self, server: usize, list: &List, entry: Entry) -> Entry {
        let key = match list.method {
            "tools/list" | "prompts/list" => self.router.to_client_name(server, &entry.key),
            "resources/list" => self.router.learn_uri(server, &entry.key),
            "resources/templates/list" => {
                self.router.learn_template(server, &entry.key);
                entry.key.clone()
            }
            _ => entry.key.clone(),
        };
        if key == entry.key {
            return entry;
        }
        let json = with_member(&entry.json, list.key, Some(&Value::from(key.as_str()).to_string()));
        Entry { key, json }
    }

    /// Tells a stateful client when an upstream is there after all.
    fn announce_later(self: &Arc<Self>, client: &Client, server: usize, list: &'static List) {
        let (aggregator, client) = (Arc::clone(self), client.clone());
        let Some(session) = client.session.clone().filter(|_| !list.changed.is_empty()) else {
            return;
        };
        tokio::spawn(async move {
            if aggregator.connection(&client, server).await.is_ok() {
                let changed = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, list.changed);
                session.streams().send(COMMON, changed.into_bytes());
            }
        });
    }
}

fn key(entry: &RawValue, list: &List) -> String {
    member(entry.get(), list.key)
        .and_then(|key| serde_json::from_str(key.get()).ok())
        .unwrap_or_default()
}

/// Where a page begins: after the entry that the cursor names, or where that was, if it is gone.
fn position(cursor: &str, entries: &[Entry]) -> Option<usize> {
    let (at, key): (usize, Option<String>) =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let found = entries.iter().position(|entry| Some(&entry.key) == key.as_ref());
    Some(found.map_or(at, |found| found + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_the_last_entry_wherever_that_is_now() {
        let entries = |keys: &[&str]| -> Vec<Entry> {
            keys.iter().map(|key| Entry { key: (*key).into(), json: String::new() }).collect()
        };
        let cursor = URL_SAFE_NO_PAD.encode(r#"[2,"b"]"#);
        assert_eq!(position(&cursor, &entries(&["a", "b", "c"])), Some(2));
        assert_eq!(position(&cursor, &entries(&["new", "a", "b", "c"])), Some(3));
        assert_eq!(position(&cursor, &entries(&["a", "c"])), Some(2));
        assert_eq!(position("!", &[]), None);
    }
}
