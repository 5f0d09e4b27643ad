//! Merges the lists (tools, prompts, resources) of all upstreams, in the order of the
//! configuration. Clients read the result in pages with cursors of the gateway's own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use context_guard_protocol::client::reads_first_page_only;
use futures_util::future::join_all;
use lru::LruCache;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::client::{Client, MAX_WAITING_BYTES, Origin};
use super::connections::{Connections, SLOW_UPSTREAM_TIMEOUT};
use super::definitions::Definitions;
use super::forward::Forwarder;
use super::list_kinds::{LIST_KINDS, ListKind, TOOLS};
use super::router::Router;
use super::translate::stateless_result;
use super::upstream_list::{ListEntry, UpstreamList};
use crate::byte_channel::byte_channel;
use crate::lock::lock;
use crate::message::{Head, append_members, error_code, member, members, with_member};
use crate::protocol_mode::ProtocolMode;
use crate::reply;
use crate::trace_context;
use crate::upstream::Failure;

mod collector;
mod fresh;
mod inner_guards;
mod late;
mod named;
mod pages;
mod repair;
mod tools;

use self::collector::ListCollector;
use self::fresh::list_source;
use self::inner_guards::{GUARD_PAUSE, InnerGuard};
use self::late::{Fetching, RefetchKey};
use self::pages::{missing_meta, page_start};
pub(super) use self::tools::{MergedTools, ProgramTool};

/// The time after which the gateway lists an upstream's tools again for the guard. It is shorter
/// than the lifetime of the definitions that the guard stores.
const TOOLS_SEEN_FOR: Duration = Duration::from_secs(600);
/// The maximum number of pages that are read from one upstream, in case its cursors never end.
const MAX_UPSTREAM_PAGES: usize = 200;

/// Merges the lists of upstreams for a client.
pub(super) struct Lists {
    forwarder: Arc<Forwarder>,
    connections: Arc<Connections>,
    router: Arc<Router>,
    definitions: Arc<Definitions>,
    page_size: usize,
    /// For each owner of stored answers and upstream index, the time at which the upstream's tools
    /// are listed again for the guard.
    tools_seen: Mutex<LruCache<(Arc<str>, usize), Instant>>,
    /// The lists that are being fetched after an answer without them.
    refetching: Mutex<HashMap<RefetchKey, AbortHandle>>,
    /// The lists that the gateway announced as changed. A client that asks again gets no older one.
    announced: Mutex<LruCache<RefetchKey, ()>>,
    /// The lists that an upstream did not return in time, with the time of the first attempt.
    slow: Mutex<LruCache<RefetchKey, Instant>>,
    /// The time at which an upstream, by index, last did not return a list in time to any client.
    slow_servers: Mutex<BTreeMap<usize, Instant>>,
    /// The time at which a cached list was last refreshed in the background for a client that only
    /// searches and calls.
    refreshed: Mutex<LruCache<RefetchKey, Instant>>,
    /// For each upstream index, whether the upstream is behind a guard of its own.
    guards: Mutex<BTreeMap<usize, InnerGuard>>,
    /// The upstreams, by index, and the methods of those of their lists that are too long.
    too_long: Mutex<HashSet<(usize, &'static str)>>,
}

impl Lists {
    pub(super) fn new(
        forwarder: &Arc<Forwarder>,
        definitions: &Arc<Definitions>,
        page_size: usize,
        max_sessions: NonZeroUsize,
    ) -> Self {
        Self {
            forwarder: Arc::clone(forwarder),
            connections: Arc::clone(&forwarder.connections),
            router: Arc::clone(&forwarder.router),
            definitions: Arc::clone(definitions),
            page_size,
            tools_seen: Mutex::new(LruCache::new(max_sessions)),
            refetching: Mutex::default(),
            announced: Mutex::new(LruCache::new(max_sessions)),
            slow: Mutex::new(LruCache::new(max_sessions)),
            slow_servers: Mutex::default(),
            refreshed: Mutex::new(LruCache::new(max_sessions)),
            guards: Mutex::default(),
            too_long: Mutex::default(),
        }
    }

    fn tools_seen(&self) -> MutexGuard<'_, LruCache<(Arc<str>, usize), Instant>> {
        lock(&self.tools_seen)
    }

    /// Answers a list request: with the first page of the merged list, or the page at the
    /// request's cursor. Tools have a list of their own: [`Self::tools_page`].
    pub(super) async fn merged(
        self: &Arc<Self>,
        origin: &Origin<'_>,
        head: &Head<'_>,
        kind: &'static ListKind,
    ) -> Vec<u8> {
        let (entries, missing) = self.fetch_all(origin, kind, head.parameters().meta).await;
        let (size, meta) = (self.page_size(origin.client), missing_meta(&missing));
        match self.page(head, kind, &entries, None, size, &meta) {
            Ok(result) if origin.client.mode == ProtocolMode::Stateless => {
                reply::result(head.raw_id(), &stateless_result(kind.method, &result))
            }
            Ok(result) => reply::result(head.raw_id(), &result),
            Err(error) => error,
        }
    }

    /// Returns the maximum number of entries on a page for a client. A client that reads only the
    /// first page gets all on it.
    fn page_size(&self, client: &Client) -> usize {
        let reads_one = client.name().is_some_and(|name| reads_first_page_only(&name));
        if reads_one { usize::MAX } else { self.page_size }
    }

    /// Returns the result of a list request: a page of at most `size` entries, with `meta` as its
    /// `_meta`. The first page also contains `read_tool`.
    ///
    /// # Errors
    /// Returns the error response if the request's cursor is invalid.
    fn page(
        &self,
        head: &Head<'_>,
        kind: &'static ListKind,
        entries: &[ListEntry],
        read_tool: Option<&str>,
        size: usize,
        meta: &Map<String, Value>,
    ) -> Result<String, Vec<u8>> {
        let start = match head.parameters().cursor {
            None => 0,
            Some(cursor) => page_start(&cursor, entries).ok_or_else(|| {
                let reason = "Invalid cursor: list again from the start.";
                reply::error(head.raw_id(), reply::INVALID_PARAMS, reason)
            })?,
        };
        let shown = entries.iter().skip(start).take(size);
        let mut page: Vec<&str> = shown.map(|entry| entry.json.as_str()).collect();
        let next = start + page.len();
        if start == 0 {
            page.extend(read_tool);
        }
        let mut result = format!(r#"{{"{}":[{}]}}"#, kind.member, page.join(","));
        if next < entries.len() {
            let last = next.checked_sub(1).and_then(|last| entries.get(last));
            let cursor = json!([next, last.map(|entry| &entry.key)]).to_string();
            let cursor = Value::from(URL_SAFE_NO_PAD.encode(cursor));
            result = append_members(&result, &format!(r#""nextCursor":{cursor}"#));
        }
        if !meta.is_empty() {
            let meta = json!(meta);
            result = append_members(&result, &format!(r#""_meta":{meta}"#));
        }
        Ok(result)
    }

    /// Returns the entries of all upstreams under the names that clients see. The second value
    /// describes the upstreams that did not answer.
    async fn fetch_all(
        self: &Arc<Self>,
        origin: &Origin<'_>,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> (Vec<ListEntry>, Vec<Value>) {
        let (fetched, missing) = self.fetch_each(origin, kind, meta).await;
        // A URI that several upstreams list is known as such before the first is shown.
        for (server, list) in &fetched {
            if kind.method == "resources/list" {
                for entry in &list.entries {
                    self.router.learn_uri(*server, &entry.key);
                }
            }
        }
        let mut entries = Vec::new();
        for (server, list) in fetched {
            let listed = list.entries.iter().cloned();
            entries.extend(listed.map(|entry| self.to_client_entry(server, kind, entry)));
        }
        (entries, missing)
    }

    /// Returns the lists of all upstreams, by index. The second value describes the upstreams that
    /// did not answer.
    async fn fetch_each(
        self: &Arc<Self>,
        origin: &Origin<'_>,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> (Vec<(usize, Arc<UpstreamList>)>, Vec<Value>) {
        let servers = 0..self.connections.servers.len();
        let fetching = servers.map(|server| self.fetch_one(origin, server, kind, meta));
        self.separate(join_all(fetching).await.into_iter().enumerate())
    }

    /// Separates the lists that upstreams returned from descriptions of those that did not.
    fn separate(
        &self,
        fetched: impl Iterator<Item = (usize, Result<Arc<UpstreamList>, Failure>)>,
    ) -> (Vec<(usize, Arc<UpstreamList>)>, Vec<Value>) {
        let (mut lists, mut missing) = (Vec::new(), Vec::new());
        for (server, fetched) in fetched {
            match fetched {
                Ok(list) => lists.push((server, list)),
                Err(failure) => missing.push(json!({
                    "name": self.connections.servers.get(server).map(|server| server.name.clone()),
                    "reason": failure.to_string(),
                })),
            }
        }
        (lists, missing)
    }

    /// Lists the upstream's tools, so that the guard knows their arguments before the first call.
    /// Does nothing if they were listed within [`TOOLS_SEEN_FOR`], or failed to be listed within
    /// [`GUARD_PAUSE`]. Waits for at most [`SLOW_UPSTREAM_TIMEOUT`]. The client may know a tool
    /// from an earlier session, and not list it.
    pub(super) async fn ensure_tools_seen(&self, origin: &Origin<'_>, server: usize) {
        let key = (Arc::clone(&origin.client.scope), server);
        if self.tools_seen().get(&key).is_some_and(|until| Instant::now() < *until) {
            return;
        }
        self.see_tools(origin, server).await;
    }

    /// Lists the upstream's tools. Waits for at most [`SLOW_UPSTREAM_TIMEOUT`].
    async fn see_tools(&self, origin: &Origin<'_>, server: usize) {
        let meta = request_meta(origin.client);
        let fetch = self.fetch(origin, server, &TOOLS, meta.as_deref());
        // A failure is reported by the call that follows.
        let _ = tokio::time::timeout(SLOW_UPSTREAM_TIMEOUT, fetch).await;
    }

    /// Starts [`Self::fetch`] as a task, so that it can outlive the client's request.
    fn start_fetch(
        self: &Arc<Self>,
        client: Client,
        server: usize,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> Fetching {
        let (lists, meta) = (Arc::clone(self), meta.map(ToOwned::to_owned));
        AbortOnDropHandle::new(tokio::spawn(trace_context::for_task(async move {
            // Nobody receives questions of the upstream: they are refused at once.
            let (out, _) = byte_channel(MAX_WAITING_BYTES);
            let origin = Origin::new(&client, &out);
            lists.fetch(&origin, server, kind, meta.as_deref()).await
        })))
    }

    /// Reads the lists of the upstream at index `server` on the gateway's own behalf, so that they
    /// are known before the first client asks. Then closes its connection, unless clients share it.
    pub(super) async fn warm(&self, server: usize) {
        let (client, (out, _)) = (Client::gateway(), byte_channel(MAX_WAITING_BYTES));
        let origin = Origin::new(&client, &out);
        match self.connections.get(&client, server).await {
            Ok(_) => {
                for kind in LIST_KINDS.iter().filter(|kind| !kind.changed.is_empty()) {
                    if let Err(failure) = self.fetch(&origin, server, kind, None).await {
                        debug!("cannot list {} at the start: {failure}", kind.member);
                    }
                }
            }
            Err(failure) => debug!("cannot connect at the start: {failure}"),
        }
        self.connections.end_own(server);
    }

    /// Reads all pages of a list from the upstream at index `server`, at most
    /// [`MAX_UPSTREAM_PAGES`], and remembers it. The list is empty if the upstream does not declare
    /// the capability. `meta` is the `_meta` of the list requests.
    ///
    /// # Errors
    /// [`Failure::TooLarge`] if the list exceeds the limits of [`ListCollector`], and the failure
    /// of a request.
    async fn fetch(
        &self,
        origin: &Origin<'_>,
        server: usize,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> Result<Arc<UpstreamList>, Failure> {
        let fetched = self.fetch_pages(origin, server, kind, meta).await;
        self.log_too_long(server, kind, fetched.as_ref().map(|_| ()));
        fetched
    }

    async fn fetch_pages(
        &self,
        origin: &Origin<'_>,
        server: usize,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> Result<Arc<UpstreamList>, Failure> {
        let (known, mut cursor) = (&self.connections.known, None::<String>);
        let changes = known.fresh.change_count(server);
        let connection = self.connections.get(origin.client, server).await?;
        let revision = self.revision(origin, server);
        if !connection.server_info().has_capability(kind.capability) {
            let list = Arc::default();
            known.learn_list(origin.client, server, kind, &list);
            return Ok(list);
        }
        // Messages of the upstream in the course of these requests are not for the client.
        // Nobody receives questions of the upstream: they are refused at once.
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin { out: &out, ..*origin };
        let (mut collected, upstream) = (ListCollector::new(kind), &connection.server.name);
        for _ in 0..MAX_UPSTREAM_PAGES {
            let request = list_request(kind, cursor.as_deref(), meta);
            let answer = self.forwarder.forward_list(&origin, server, request).await;
            let head = answer.as_ref().ok().and_then(|answer| Head::read(answer));
            let result = head.as_ref().and_then(|head| head.result);
            if kind.method == TOOLS.method {
                let key = (Arc::clone(&origin.client.scope), server);
                let pause = if result.is_some() { TOOLS_SEEN_FOR } else { GUARD_PAUSE };
                self.tools_seen().put(key, Instant::now() + pause);
            }
            let answer = answer.as_ref().map_err(Clone::clone)?;
            let Some(result) = result else {
                // Some servers that have resources do not implement all of their lists.
                let is_missing = error_code(answer) == Some(reply::METHOD_NOT_FOUND);
                if is_missing && kind.method != TOOLS.method {
                    let list = Arc::default();
                    known.learn_list(origin.client, server, kind, &list);
                    return Ok(list);
                }
                let error = head.and_then(|head| head.error).map(RawValue::get);
                let message = error.and_then(|error| member(error, "message"));
                let message: Option<String> =
                    message.and_then(|text| serde_json::from_str(text.get()).ok());
                let reason = message.as_deref().or(error).unwrap_or("no answer");
                return Err(Failure::Unavailable(reason.to_owned()));
            };
            let result = members(result);
            let found =
                |name: &str| result.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
            let entries: Vec<&RawValue> = found(kind.member)
                .and_then(|all| serde_json::from_str(all.get()).ok())
                .unwrap_or_default();
            let names: Vec<String> = entries.iter().map(|entry| entry_key(entry, kind)).collect();
            if kind.method == TOOLS.method {
                self.learn_guard(server, &names, cursor.is_none());
            }
            collected.add_page(upstream, &entries, names, cursor.is_none())?;
            cursor = found("nextCursor").map(|cursor| cursor.get().to_owned());
            match &cursor {
                Some(cursor) if collected.follow(upstream, cursor)? => {}
                _ => break,
            }
        }
        collected.log_invalid(upstream);
        let ListCollector { list, headers, .. } = collected;
        // Sessions with equal lists share one in memory, with its digest.
        let last = known.list(origin.client, server, kind).filter(|last| **last == list);
        let list = last.unwrap_or_else(|| Arc::new(list));
        known.learn_list(origin.client, server, kind, &list);
        if kind.method == TOOLS.method {
            self.forwarder.param_headers.learn(&origin.client.scope, server, headers);
            let source = list_source(origin.client, &connection, server, revision);
            self.learn_tools(server, &source, &list, changes);
        }
        Ok(list)
    }

    /// Returns an upstream's list entry with its name or URI replaced by the one that clients see.
    fn to_client_entry(&self, server: usize, kind: &ListKind, entry: ListEntry) -> ListEntry {
        let key = match kind.method {
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
        let json = with_member(&entry.json, kind.key, Some(&Value::from(key.as_str()).to_string()));
        ListEntry { key, json }
    }
}

/// Returns the `_meta` of a list request that the gateway makes for a client. `None` if requests of
/// its protocol mode have none.
pub(super) fn request_meta(client: &Client) -> Option<Box<RawValue>> {
    let is_stateless = client.mode == ProtocolMode::Stateless;
    let meta = is_stateless.then(|| format!("{{{}}}", client.info.meta()))?;
    RawValue::from_string(meta).ok()
}

fn list_request(kind: &ListKind, cursor: Option<&str>, meta: Option<&RawValue>) -> Vec<u8> {
    let mut params = String::from("{}");
    if let Some(cursor) = cursor {
        params = append_members(&params, &format!(r#""cursor":{cursor}"#));
    }
    if let Some(meta) = meta {
        // Several requests cannot report progress under one token.
        let meta = with_member(meta.get(), "progressToken", None);
        params = append_members(&params, &format!(r#""_meta":{meta}"#));
    }
    let method = kind.method;
    format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{params}}}"#).into_bytes()
}

pub(super) fn entry_key(entry: &RawValue, kind: &ListKind) -> String {
    member(entry.get(), kind.key)
        .and_then(|key| serde_json::from_str(key.get()).ok())
        .unwrap_or_default()
}
