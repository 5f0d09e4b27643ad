//! Collects the pages of an upstream's list, up to a maximum size.

use std::collections::HashSet;

use context_guard_protocol::answer::quote;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::{debug, warn};

use super::{Lists, repair};
use crate::aggregator::list_kinds::{ListKind, TOOLS};
use crate::aggregator::param_headers::DeclaredHeaders;
use crate::aggregator::upstream_list::{ListEntry, MAX_ENTRIES, UpstreamList};
use crate::catalogue_tools::READ_TOOLS;
use crate::lock::lock;
use crate::message::with_member;
use crate::upstream::Failure;

/// The maximum total size of the entries of one list, in bytes. An upstream may return endless
/// pages, each as long as `limits.responseBytes` allows. The merged list must also fit into a
/// message to the guard.
pub(super) const MAX_LIST_BYTES: usize = 8 << 20;

/// The pages of an upstream's list.
pub(super) struct ListCollector {
    kind: &'static ListKind,
    pub(super) list: UpstreamList,
    /// The headers that the tools declare.
    pub(super) headers: DeclaredHeaders,
    /// The names of the tools so far.
    tools: HashSet<String>,
    /// The number of entries that clients would refuse, and the first of them.
    invalid: (usize, String),
    cursors: HashSet<String>,
    entries: usize,
    bytes: usize,
}

impl ListCollector {
    pub(super) fn new(kind: &'static ListKind) -> Self {
        Self {
            kind,
            list: UpstreamList::default(),
            headers: DeclaredHeaders::default(),
            tools: HashSet::new(),
            invalid: (0, String::new()),
            cursors: HashSet::new(),
            entries: 0,
            bytes: 0,
        }
    }

    /// Adds the entries of a page, with their names or URIs.
    ///
    /// # Errors
    /// [`Failure::TooLarge`] if the list has more than [`MAX_ENTRIES`] entries, or more than
    /// [`MAX_LIST_BYTES`].
    pub(super) fn add_page(
        &mut self,
        upstream: &str,
        entries: &[&RawValue],
        names: Vec<String>,
        is_first: bool,
    ) -> Result<(), Failure> {
        let is_tools = self.kind.method == TOOLS.method;
        self.entries += entries.len();
        if self.entries > MAX_ENTRIES {
            return Err(self.too_large(upstream));
        }
        for (entry, key) in entries.iter().zip(names) {
            // Entries that are left out count too: the next page may have as many.
            self.count(upstream, key.len() + entry.get().len())?;
            if is_tools && (key.is_empty() || !self.tools.insert(key.clone())) {
                if self.invalid.0 == 0 {
                    let text = if key.is_empty() { entry.get() } else { &key };
                    self.invalid.1 = quote(text).to_string();
                }
                self.invalid.0 += 1;
                continue;
            }
            // The guard adds its tool to the first page of every upstream. The merged list
            // contains it once.
            if is_tools && is_first && READ_TOOLS.contains(&key.as_str()) {
                let name = Value::from(READ_TOOLS[0]).to_string();
                self.list.read_tool = Some(with_member(entry.get(), "name", Some(&name)));
                continue;
            }
            let mut json = None;
            if is_tools {
                self.headers.add(&key, entry.get());
                // Clients refuse a whole list for one invalid definition.
                json = repair::tool(entry.get());
            }
            let json = json.unwrap_or_else(|| entry.get().to_owned());
            self.list.entries.push(ListEntry { key, json });
        }
        Ok(())
    }

    /// Returns true if the page with this `nextCursor` (raw JSON) is another page of the list.
    ///
    /// # Errors
    /// [`Failure::TooLarge`] if the entries and cursors have more than [`MAX_LIST_BYTES`].
    pub(super) fn follow(&mut self, upstream: &str, cursor: &str) -> Result<bool, Failure> {
        self.count(upstream, cursor.len())?;
        // A cursor that repeats would make the list endless.
        Ok(cursor != "null" && self.cursors.insert(cursor.to_owned()))
    }

    fn count(&mut self, upstream: &str, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes;
        if self.bytes > MAX_LIST_BYTES { Err(self.too_large(upstream)) } else { Ok(()) }
    }

    fn too_large(&self, upstream: &str) -> Failure {
        Failure::TooLarge(format!(
            "The list of {} of the upstream `{upstream}` is too long: the gateway reads at most \
             {MAX_ENTRIES} entries and {} MiB of a list.",
            self.kind.member,
            MAX_LIST_BYTES >> 20
        ))
    }

    /// Logs the entries that were left out.
    pub(super) fn log_invalid(&self, upstream: &str) {
        let (count, first) = &self.invalid;
        if *count > 0 {
            debug!(upstream, "left out {count} tools without a name of their own: {first}");
        }
    }
}

impl Lists {
    /// Logs that a list of the upstream at index `server` is too long, once until it is not.
    pub(super) fn log_too_long(
        &self,
        server: usize,
        kind: &'static ListKind,
        read: Result<(), &Failure>,
    ) {
        let key = (server, kind.method);
        match read {
            Ok(()) => {
                lock(&self.too_long).remove(&key);
            }
            Err(failure @ Failure::TooLarge(_)) if lock(&self.too_long).insert(key) => {
                warn!("{failure} Clients receive lists without it");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregator::client::{Client, MAX_WAITING_BYTES, Origin};
    use crate::aggregator::list_kinds::PROMPTS;
    use crate::aggregator::test_kit::{aggregator, client, upstream};
    use crate::byte_channel::byte_channel;
    use crate::config::Isolation;

    /// A server whose list of tools has 10 pages, each with a tool of 1 MB.
    const LONG: &str = r#"
        id=0 page=0
        text=$(head -c 1000000 /dev/zero | tr '\0' x)
        while read -r line; do
            case "$line" in *'"id"'*) ;; *) continue ;; esac
            id=$((id + 1))
            case "$line" in
            *'"tools/list"'*)
                case "$line" in *'"cursor"'*) ;; *) page=0 ;; esac
                page=$((page + 1)) next=',"nextCursor":"'$page'"'
                if [ $page = 10 ]; then next=''; fi
                result='{"tools":[{"name":"t'$page'","description":"'$text'","inputSchema":{"type":"object"}}]'$next'}'
                ;;
            *) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
            esac
            echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
        done"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn long_list_of_an_upstream_is_refused() {
        let mut long = upstream("long", "", Isolation::Shared);
        long.command = ["sh", "-c", LONG].map(str::to_owned).to_vec();
        let upstreams = vec![long, upstream("b", "tool", Isolation::Shared)];
        let (aggregator, processes) = aggregator(upstreams, 4, context_guard_test_stub::FORWARD);
        aggregator.clone().warm().await;
        let known = &aggregator.connections.known;
        assert!(known.list(&Client::gateway(), 0, &TOOLS).is_none());
        assert!(known.list(&Client::gateway(), 1, &TOOLS).is_some());
        let client = client("ann");
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let listed = aggregator.lists.tools_of(&Origin::new(&client, &out), 0).await;
        let reason = listed.err().unwrap();
        assert!(reason.contains("tools of the upstream `long`"), "{reason}");
        assert!(reason.contains("8 MiB"), "{reason}");
        processes.end().await;
    }

    #[test]
    fn entries_and_cursors_are_limited() {
        let page = |count: usize| vec![r#"{"name":"a"}"#; count];
        let add = |collector: &mut ListCollector, page: &[&str]| {
            let entries: Vec<&RawValue> =
                page.iter().map(|entry| serde_json::from_str(entry).unwrap()).collect();
            let names = vec!["a".to_owned(); entries.len()];
            collector.add_page("files", &entries, names, true)
        };
        for kind in [&TOOLS, &PROMPTS] {
            let mut collector = ListCollector::new(kind);
            assert!(add(&mut collector, &page(MAX_ENTRIES)).is_ok());
            let failure = add(&mut collector, &page(1)).unwrap_err();
            assert!(matches!(failure, Failure::TooLarge(_)), "{failure}");
        }
        let mut collector = ListCollector::new(&TOOLS);
        let long = format!("\"{}\"", "x".repeat(MAX_LIST_BYTES / 2));
        assert!(collector.follow("files", &long).unwrap());
        assert!(!collector.follow("files", "null").unwrap());
        assert!(collector.follow("files", &long).is_err());
    }
}
