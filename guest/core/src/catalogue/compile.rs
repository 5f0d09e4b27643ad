//! Compiles a merged list.

use context_guard_catalogue::index::{self, Settings};
use context_guard_catalogue::tool::Tool;

use super::list::{TierList, WrittenList, write_list};
use super::merged::{MergedList, MergedTool};
use super::review::{Review, review};
use super::{CatalogueRequest, CompiledCatalogue};
use crate::policy::{CatalogueMode, CatalogueSettings};

/// Tokens of the full list above which it is tiered by default.
const DEFAULT_THRESHOLD: u64 = 6_000;
/// The category of the tools of an upstream without a name.
const UNNAMED_CATEGORY: &str = "tools";
/// Maximum number of tools that clients get in full if they load tools on demand themselves.
const MAX_DEFERRED_TOOLS: usize = 500;

/// Compiles the merged list of all upstreams. Returns none if the message is no such list.
pub(super) fn compile(request: &CatalogueRequest<'_>, merged: &[u8]) -> Option<CompiledCatalogue> {
    let settings = request.settings();
    let merged = MergedList::parse(merged, &settings)?;
    compile_list(request, merged, &settings, true)
}

/// Compiles the list of one upstream. Returns none if the list has several pages, or if clients get
/// it as it is, unless `always`.
pub(super) fn compile_upstream(
    request: &CatalogueRequest<'_>,
    upstream: &str,
    list: &[u8],
    always: bool,
) -> Option<CompiledCatalogue> {
    let settings = request.settings();
    let merged = MergedList::from_upstream(upstream, list, &settings)?;
    compile_list(request, merged, &settings, always)
}

fn compile_list(
    request: &CatalogueRequest<'_>,
    mut merged: MergedList<'_>,
    settings: &CatalogueSettings,
    always: bool,
) -> Option<CompiledCatalogue> {
    // Each visible set has its own index, so that hidden tools influence nothing.
    let hidden: Vec<String> = merged
        .tools
        .extract_if(.., |tool| settings.is_hidden(&tool.endpoint()))
        .map(|tool| tool.wire_name)
        .collect();
    let Review { held, suspicious } = review(&mut merged, settings);
    let estimator = request.policy.settings_for("", "tools/list").estimator;
    let cost: u64 =
        merged.tools.iter().map(|tool| estimator.price(tool.definition.as_bytes())).sum();
    let is_tiered = match settings.mode.unwrap_or_default() {
        CatalogueMode::Full => false,
        CatalogueMode::Tiered => true,
        CatalogueMode::Auto => {
            let defers = settings.is_deferring(request.client_name)
                && merged.tools.len() <= MAX_DEFERRED_TOOLS;
            cost > settings.threshold.unwrap_or(DEFAULT_THRESHOLD) && !defers
        }
    };
    if !always && !is_tiered && held.is_empty() {
        return None;
    }
    // Only page 1 of a long list reaches some clients: it starts with the tools to find the rest.
    let has_pages = merged.tools.len() > merged.page_size;
    let tools: Vec<Tool<'_>> =
        merged.tools.iter().filter_map(|tool| self::tool(request, tool, settings)).collect();
    let WrittenList { list, tools: listed } = write_list(&TierList {
        request,
        settings,
        estimator: &estimator,
        tools: &tools,
        hidden: &hidden,
        held: &held,
        suspicious: &suspicious,
        is_tiered,
        has_meta_tools: is_tiered || has_pages,
    });
    // Tools that the catalogue alone makes callable need it in full mode, too: an unknown name is
    // answered with similar ones.
    let ranker = Settings {
        synonyms: settings.synonyms.iter().flatten().map(|group| group.join(" ")).collect(),
        ..Settings::default()
    };
    let index = index::compile(&tools, &ranker);
    Some(CompiledCatalogue { entries: request.entries(index, &tools), list, tools: listed, held })
}

fn tool<'t>(
    request: &CatalogueRequest<'_>,
    merged: &'t MergedTool<'_>,
    settings: &'t CatalogueSettings,
) -> Option<Tool<'t>> {
    let mut tool = Tool::parse(&merged.server, &merged.wire_name, merged.definition)?;
    let rule = settings.category(&merged.endpoint());
    let server = if merged.server.is_empty() { UNNAMED_CATEGORY } else { merged.server.as_str() };
    tool.category = rule.map_or(server, |rule| rule.name.as_str());
    let own = request.policy.settings_for(&merged.server, &merged.own_name);
    tool.read_only = own.read_only.unwrap_or(tool.read_only);
    tool.name.clone_from(&merged.name);
    tool.usage = merged.usage;
    Some(tool)
}
