//! The merged list of all upstreams, as the host sends it.

use std::collections::{BTreeMap, BTreeSet};

use context_guard_catalogue::score::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::policy::{CatalogueSettings, endpoint_name};

#[derive(Deserialize)]
struct MergedMessage<'m> {
    #[serde(borrow)]
    result: MergedResult<'m>,
}

#[derive(Deserialize)]
struct MergedResult<'m> {
    #[serde(borrow)]
    tools: Vec<&'m RawValue>,
    #[serde(rename = "_meta")]
    meta: MergedMeta,
}

#[derive(Deserialize)]
struct MergedMeta {
    #[serde(rename = "dev.context-guard/catalogue")]
    facts: MergedFacts,
}

/// The facts about a merged list that its tools do not contain.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MergedFacts {
    /// The servers in the order of the list, each with the names of its tools.
    servers: Vec<MergedServer>,
    /// The call statistics of each tool, by `server::tool`.
    #[serde(default)]
    usage: BTreeMap<String, Usage>,
    /// The maximum number of tools on a page.
    page_size: usize,
    /// The number of servers that have not listed their tools yet.
    #[serde(default)]
    missing: usize,
    /// The tools, as `server::tool`, whose definitions the upstream changed.
    #[serde(default)]
    changed: BTreeSet<String>,
    /// The tools, as `server::tool`, whose current definitions the operator approved.
    #[serde(default)]
    approved: BTreeSet<String>,
    /// The size of the definitions in bytes, if the host has reduced them to names.
    #[serde(default)]
    full_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct MergedServer {
    name: String,
    tools: Vec<String>,
}

/// A tool of the merged list.
pub(super) struct MergedTool<'m> {
    pub(super) server: String,
    /// The name of the tool on its server, after the operator's renaming.
    pub(super) name: String,
    /// The upstream's own name of the tool, which policy and call statistics use.
    pub(super) own_name: String,
    pub(super) wire_name: String,
    pub(super) usage: Usage,
    pub(super) definition: &'m str,
}

impl MergedTool<'_> {
    pub(super) fn endpoint(&self) -> String {
        endpoint_name(&self.server, &self.name)
    }
}

/// The merged list of all upstreams, parsed.
pub(super) struct MergedList<'m> {
    pub(super) tools: Vec<MergedTool<'m>>,
    pub(super) page_size: usize,
    /// The number of servers that have not listed their tools yet.
    pub(super) missing: usize,
    /// The tools, as `server::tool`, whose definitions the upstream changed.
    pub(super) changed: BTreeSet<String>,
    /// The tools, as `server::tool`, whose current definitions the operator approved.
    pub(super) approved: BTreeSet<String>,
    /// The size of the definitions in bytes, if the host has reduced them to names.
    pub(super) full_bytes: Option<u64>,
}

/// The response of one upstream to `tools/list`.
#[derive(Deserialize)]
struct UpstreamMessage<'m> {
    #[serde(borrow)]
    result: UpstreamResult<'m>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpstreamResult<'m> {
    #[serde(borrow)]
    tools: Vec<&'m RawValue>,
    next_cursor: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl<'m> MergedList<'m> {
    /// Parses the host's message. Returns `None` if it is an error, or not a merged list.
    pub(super) fn parse(message: &'m [u8], settings: &CatalogueSettings) -> Option<Self> {
        let message: MergedMessage<'m> = serde_json::from_slice(message).ok()?;
        let MergedResult { tools, meta: MergedMeta { facts } } = message.result;
        Some(Self::new(tools, facts, settings))
    }

    /// Reads the list of one upstream, which has the guard's read tool at the end. Returns `None`
    /// if the message is not a list, if a tool has no name, or if the list continues on another
    /// page.
    pub(super) fn from_upstream(
        upstream: &str,
        message: &'m [u8],
        settings: &CatalogueSettings,
    ) -> Option<Self> {
        let message: UpstreamMessage<'m> = serde_json::from_slice(message).ok()?;
        let mut tools = Some(message.result).filter(|list| list.next_cursor.is_none())?.tools;
        tools.pop();
        let names = tools.iter().map(|tool| serde_json::from_str(tool.get()));
        let names: Vec<Named> = names.collect::<Result<_, _>>().ok()?;
        let names = names.into_iter().map(|tool| tool.name).collect();
        let facts = MergedFacts {
            servers: vec![MergedServer { name: upstream.to_owned(), tools: names }],
            usage: BTreeMap::new(),
            // The client gets all of it on one page.
            page_size: usize::MAX,
            missing: 0,
            changed: BTreeSet::new(),
            approved: BTreeSet::new(),
            full_bytes: None,
        };
        Some(Self::new(tools, facts, settings))
    }

    fn new(tools: Vec<&'m RawValue>, mut facts: MergedFacts, settings: &CatalogueSettings) -> Self {
        let owners = facts.servers.into_iter().flat_map(|server| {
            let name = server.name;
            server.tools.into_iter().map(move |tool| (name.clone(), tool))
        });
        let mut merged = Vec::with_capacity(tools.len());
        for (definition, (server, name)) in tools.into_iter().zip(owners) {
            let definition = definition.get();
            let Ok(Named { name: wire_name }) = serde_json::from_str(definition) else { continue };
            let own_name = settings.own_name(&server, &name).unwrap_or(&name).to_owned();
            let usage = facts.usage.remove(&endpoint_name(&server, &own_name));
            merged.push(MergedTool {
                server,
                name,
                own_name,
                wire_name,
                usage: usage.unwrap_or_default(),
                definition,
            });
        }
        Self {
            tools: merged,
            page_size: facts.page_size,
            missing: facts.missing,
            changed: facts.changed,
            approved: facts.approved,
            full_bytes: facts.full_bytes,
        }
    }
}
