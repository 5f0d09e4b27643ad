//! The merged list of tools, for the guard's catalogue.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::late::refetch_key;
use super::pages::missing_meta;
use super::{Lists, request_meta};
use crate::aggregator::audience::Audience;
use crate::aggregator::catalogue_list::with_expiry;
use crate::aggregator::client::{Client, Origin};
use crate::aggregator::client_list::{ClientList, name_alone};
use crate::aggregator::connections::SLOW_UPSTREAM_TIMEOUT;
use crate::aggregator::fresh_lists::REFRESH_AFTER;
use crate::aggregator::list_kinds::TOOLS;
use crate::aggregator::translate::stateless_result;
use crate::aggregator::upstream_list::{ListEntry, UpstreamList};
use crate::catalogue_tools::finds_tools;
use crate::message::{Head, append_members};
use crate::protocol_mode::ProtocolMode;
use crate::reply;

/// The tool that runs programs, for a list of tools.
#[derive(Clone, Copy)]
pub(in crate::aggregator) struct ProgramTool {
    pub(in crate::aggregator) definition: &'static str,
    /// True if the list contains only the guard's own tools: those that find tools, read answers
    /// and run programs.
    pub(in crate::aggregator) is_only: bool,
}

/// The lists of tools of all upstreams that answered.
#[derive(Clone)]
pub(in crate::aggregator) struct MergedTools {
    /// The names of the upstreams with their lists, in the order of the configuration.
    pub(in crate::aggregator) lists: Vec<(String, Arc<UpstreamList>)>,
    /// The indexes of the upstreams, in the order of `lists`.
    servers: Vec<usize>,
    /// Descriptions of the upstreams that did not answer.
    missing: Vec<Value>,
    /// The names of all upstreams without a list.
    pub(in crate::aggregator) unlisted: Vec<String>,
    /// The tools, as `server::tool`, whose definitions an upstream has changed.
    pub(in crate::aggregator) changed: Vec<String>,
    /// The tools whose current definitions the operator approved.
    pub(in crate::aggregator) approved: Vec<String>,
    /// The size of the definitions in bytes, if the lists contain the names of tools alone.
    pub(in crate::aggregator) full_bytes: Option<usize>,
}

impl MergedTools {
    /// Returns the lists, each with the index and the name of its upstream.
    pub(in crate::aggregator) fn each(
        &self,
    ) -> impl Iterator<Item = (usize, (&str, &UpstreamList))> {
        let lists = self.lists.iter().map(|(name, list)| (name.as_str(), &**list));
        self.servers.iter().copied().zip(lists)
    }

    /// Returns these lists with the names of tools alone. The guard processes them in a fraction of
    /// the time, under the same policy.
    pub(in crate::aggregator) fn by_name(&self) -> Self {
        let reduced = |list: &Arc<UpstreamList>| {
            let entries = list
                .entries
                .iter()
                .map(|entry| ListEntry { key: entry.key.clone(), json: name_alone(entry) });
            let entries = entries.collect();
            let read_tool = list.read_tool.clone();
            Arc::new(UpstreamList { entries, read_tool, ..UpstreamList::default() })
        };
        let full_bytes = self.lists.iter().map(|(_, list)| list.bytes()).sum();
        let lists = self.lists.iter().map(|(name, list)| (name.clone(), reduced(list)));
        Self { lists: lists.collect(), full_bytes: Some(full_bytes), ..self.clone() }
    }
}

impl Lists {
    /// Returns the cached list of tools of an upstream. Reads the list if none is cached.
    ///
    /// # Errors
    /// The reason why the list cannot be read.
    pub(in crate::aggregator) async fn tools_of(
        &self,
        origin: &Origin<'_>,
        server: usize,
    ) -> Result<Arc<UpstreamList>, String> {
        if let Some(list) = self.connections.known.list(origin.client, server, &TOOLS) {
            return Ok(list);
        }
        let meta = request_meta(origin.client);
        let fetch = self.fetch(origin, server, &TOOLS, meta.as_deref());
        fetch.await.map_err(|failure| failure.to_string())
    }

    /// Returns the cached list of one upstream as a merged list. Reads the list if none is cached;
    /// the merged list has none if that fails.
    pub(in crate::aggregator) async fn tools_of_one(
        &self,
        origin: &Origin<'_>,
        server: usize,
    ) -> MergedTools {
        let list = tokio::time::timeout(SLOW_UPSTREAM_TIMEOUT, self.tools_of(origin, server));
        let list = list.await.ok().and_then(Result::ok).map(|list| (server, list));
        self.merge(origin, list.into_iter().collect(), Vec::new())
    }

    /// Reads the lists of all upstreams.
    pub(in crate::aggregator) async fn merged_tools(
        self: &Arc<Self>,
        origin: &Origin<'_>,
        meta: Option<&RawValue>,
    ) -> MergedTools {
        let (lists, missing) = self.fetch_each(origin, &TOOLS, meta).await;
        self.merge(origin, lists, missing)
    }

    /// Returns the cached lists of all upstreams. Reads those that are not cached, except from slow
    /// upstreams.
    pub(in crate::aggregator) async fn known_tools(
        self: &Arc<Self>,
        origin: &Origin<'_>,
    ) -> MergedTools {
        let client = origin.client;
        let reading = (0..self.connections.servers.len()).map(|server| async move {
            if let Some(list) = self.connections.known.list(client, server, &TOOLS) {
                self.refresh_later(client, server, &TOOLS, &list).await;
                return Some((server, Ok(list)));
            }
            if self.is_slow(&refetch_key(client, server, &TOOLS)) {
                return None;
            }
            let meta = request_meta(client);
            Some((server, self.fetch_one(origin, server, &TOOLS, meta.as_deref()).await))
        });
        let (lists, missing) = self.separate(join_all(reading).await.into_iter().flatten());
        self.merge(origin, lists, missing)
    }

    fn merge(
        &self,
        origin: &Origin<'_>,
        lists: Vec<(usize, Arc<UpstreamList>)>,
        missing: Vec<Value>,
    ) -> MergedTools {
        let servers: Vec<usize> = lists.iter().map(|(server, _)| *server).collect();
        let name = |server: usize| {
            let server = self.connections.servers.get(server);
            server.map(|server| server.name.clone()).unwrap_or_default()
        };
        let (mut changed, mut approved) = (Vec::new(), Vec::new());
        for (server, list) in &lists {
            let audience = Audience::of_client(origin.client, *server);
            let common = Audience::of_client(&Client::gateway(), *server);
            // The list may be cached for longer than the definitions of its audience.
            if self.definitions.needs_comparison(&audience, &common) {
                let revision = self.revision(origin, *server);
                self.definitions.observe(&audience, &common, &name(*server), revision, list);
            }
            let facts = self.definitions.facts(&audience, &common);
            let endpoint = |tool: String| format!("{}::{tool}", name(*server));
            changed.extend(facts.changed.into_iter().map(endpoint));
            approved.extend(facts.approved.into_iter().map(endpoint));
        }
        let all = 0..self.connections.servers.len();
        let unlisted = all.filter(|server| !servers.contains(server)).map(name).collect();
        let lists = lists.into_iter().map(|(server, list)| (name(server), list)).collect();
        MergedTools { lists, servers, missing, unlisted, changed, approved, full_bytes: None }
    }

    /// Returns true if an upstream is known to have a tool with this client-visible name.
    pub(in crate::aggregator) fn is_known_tool(&self, origin: &Origin<'_>, name: &str) -> bool {
        let Some((server, own_name)) = self.router.client_names.find(name) else { return false };
        let list = self.connections.known.list(origin.client, server, &TOOLS);
        list.is_some_and(|list| list.entries.iter().any(|entry| entry.key == own_name))
    }

    /// Returns true if the upstream at index `server` does not list the tool `own_name`. Asks the
    /// upstream again if the cached list lacks the tool, because the upstream may have new tools.
    /// False if no list is cached, or the upstream does not answer.
    pub(in crate::aggregator) async fn is_unlisted(
        &self,
        origin: &Origin<'_>,
        server: usize,
        own_name: &str,
    ) -> bool {
        let has_tool = |list: &UpstreamList| list.entries.iter().any(|entry| entry.key == own_name);
        match self.connections.known.list(origin.client, server, &TOOLS) {
            Some(list) if !has_tool(&list) => {}
            _ => return false,
        }
        let meta = request_meta(origin.client);
        let fetch = self.fetch(origin, server, &TOOLS, meta.as_deref());
        match tokio::time::timeout(SLOW_UPSTREAM_TIMEOUT, fetch).await {
            Ok(Ok(list)) => !has_tool(&list),
            _ => false,
        }
    }

    /// Returns the merged list for the guard, as a response to `tools/list`.
    pub(in crate::aggregator) fn merged_message(
        &self,
        id: &str,
        merged: &MergedTools,
        usage: &Map<String, Value>,
    ) -> Vec<u8> {
        let servers: Vec<Value> = merged
            .lists
            .iter()
            .map(|(name, list)| {
                let tools: Vec<&str> =
                    list.entries.iter().map(|entry| entry.key.as_str()).collect();
                json!({"name": name, "tools": tools})
            })
            .collect();
        let facts = json!({
            "servers": servers,
            "usage": usage,
            "pageSize": self.page_size,
            "missing": merged.unlisted.len(),
            "changed": merged.changed,
            "approved": merged.approved,
            "fullBytes": merged.full_bytes,
        });
        let entries = self.client_entries(merged);
        let tools: Vec<&str> = entries.iter().map(|entry| entry.json.as_str()).collect();
        let result = format!(
            r#"{{"tools":[{}],"_meta":{{"dev.context-guard/catalogue":{facts}}}}}"#,
            tools.join(",")
        );
        reply::result(id, &result)
    }

    /// Returns the entries of all lists under their client-visible names.
    pub(in crate::aggregator) fn client_entries(&self, merged: &MergedTools) -> Vec<ListEntry> {
        let lists = merged.servers.iter().zip(&merged.lists);
        let entries = lists.flat_map(|(server, (_, list))| {
            let listed = list.entries.iter().cloned();
            listed.map(|entry| self.to_client_entry(*server, &TOOLS, entry))
        });
        entries.collect()
    }

    /// Answers `tools/list` with a page of the guard's list, or of the merged list if there is
    /// none. `expires` is the time until the guard's list changes by itself. `programs` is the
    /// tool that runs programs, or `None` if it is disabled.
    pub(in crate::aggregator) fn tools_page(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        merged: &MergedTools,
        list: &ClientList,
        expires: Duration,
        programs: Option<ProgramTool>,
    ) -> Vec<u8> {
        let (mut entries, read_tool, size) = match list.list.as_deref() {
            Some(list) => {
                let size = if list.is_tiered { usize::MAX } else { self.page_size(origin.client) };
                (Cow::Borrowed(list.entries.as_slice()), list.read_tool.as_deref(), size)
            }
            None => {
                let read_tool = merged.lists.iter().find_map(|(_, list)| list.read_tool.as_deref());
                (Cow::Owned(self.client_entries(merged)), read_tool, self.page_size(origin.client))
            }
        };
        if programs.is_some_and(|tool| tool.is_only) {
            entries.to_mut().retain(|entry| finds_tools(&entry.key));
        }
        let run = programs.map(|tool| tool.definition);
        let own: Vec<&str> = read_tool.into_iter().chain(run).collect();
        let own = (!own.is_empty()).then(|| own.join(","));
        let mut meta = missing_meta(&merged.missing);
        meta.extend(list.fallback.map(|fallback| {
            let (name, value) = fallback.meta();
            (name.to_owned(), value)
        }));
        let page = self.page(head, &TOOLS, &entries, own.as_deref(), size, &meta);
        match page {
            Ok(result) if origin.client.mode == ProtocolMode::Stateless => {
                // Lists without those of slow upstreams change as soon as they answer.
                let is_final = merged.missing.is_empty() && list.fallback.is_none();
                let ttl = if is_final { REFRESH_AFTER.as_millis() } else { 0 };
                let result = append_members(&result, &format!(r#""ttlMs":{ttl}"#));
                let result = with_expiry(&stateless_result(TOOLS.method, &result), expires);
                reply::result(head.raw_id(), &result)
            }
            Ok(result) => reply::result(head.raw_id(), &result),
            Err(error) => error,
        }
    }
}
