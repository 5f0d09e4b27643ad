//! Compiles a merged list to an index, definition blocks and the list for the client.

use context_guard_catalogue::index::{self, Settings};
use context_guard_catalogue::tool::Tool;

use super::list::{TierList, WrittenList, write_list};
use super::merged::{MergedList, MergedTool};
use super::review::{Review, review};
use super::{CatalogueRequest, CompiledCatalogue};
use crate::policy::{CatalogueMode, CatalogueSettings};

/// The size of the full list, in tokens, above which clients get a tiered list by default.
const DEFAULT_THRESHOLD: u64 = 6_000;
/// The average size of a token in definitions that the host has not sent.
const BYTES_PER_TOKEN: u64 = 4;
/// The category of the tools of an upstream without a name.
const UNNAMED_CATEGORY: &str = "tools";
/// The number of servers without a list from which on the full list has the tools to find others.
const MANY_MISSING: usize = 5;
/// The maximum number of tools in the full list for clients that load tools on demand themselves.
const MAX_DEFERRED_TOOLS: usize = 500;

/// Compiles the merged list of all upstreams. Returns `None` if the message is not such a list.
pub(super) fn compile(request: &CatalogueRequest<'_>, merged: &[u8]) -> Option<CompiledCatalogue> {
    let settings = request.settings();
    let mut merged = MergedList::parse(merged, &settings)?;
    let unmatched = unmatched_globs(&merged, &settings);
    let hidden = remove_hidden(&mut merged, &settings);
    let review = review(&mut merged, &settings);
    let is_tiered = is_tiered(request, &merged, &settings);
    let findings = Findings { hidden: &hidden, unmatched: &unmatched, review: &review };
    Some(compile_list(request, &merged, &settings, &findings, is_tiered))
}

/// Compiles the list of one upstream. Returns `None` if the message is not a list, or has several
/// pages. Unless `always`, also returns `None` if clients get the list in full and without pins.
pub(super) fn compile_upstream(
    request: &CatalogueRequest<'_>,
    upstream: &str,
    list: &[u8],
    always: bool,
) -> Option<CompiledCatalogue> {
    let settings = request.settings();
    let mut merged = MergedList::from_upstream(upstream, list, &settings)?;
    // The guard withheld suspicious tools when it shaped the list.
    let hidden = remove_hidden(&mut merged, &settings);
    let is_tiered = is_tiered(request, &merged, &settings);
    let has_pins = settings.pins.as_ref().is_some_and(|pins| !pins.is_empty());
    (always || is_tiered || has_pins).then(|| {
        let findings = Findings { hidden: &hidden, unmatched: &[], review: &Review::default() };
        compile_list(request, &merged, &settings, &findings, is_tiered)
    })
}

/// The results of applying a policy to a merged list, for the host.
struct Findings<'f> {
    /// The client-visible names of hidden tools.
    hidden: &'f [String],
    /// The globs of the policy that match no tool, each with its setting.
    unmatched: &'f [String],
    review: &'f Review,
}

/// Returns the globs of the policy that match no tool. Empty if servers are missing, because their
/// tools may match.
fn unmatched_globs(merged: &MergedList<'_>, settings: &CatalogueSettings) -> Vec<String> {
    if merged.missing > 0 {
        return Vec::new();
    }
    let endpoints: Vec<String> = merged.tools.iter().map(MergedTool::endpoint).collect();
    settings.unmatched_globs(&endpoints)
}

/// Removes hidden tools from the list, and returns their client-visible names. Each visible set of
/// tools has its own index, so that hidden tools do not influence search results.
fn remove_hidden(merged: &mut MergedList<'_>, settings: &CatalogueSettings) -> Vec<String> {
    let hidden = merged.tools.extract_if(.., |tool| settings.is_hidden(&tool.endpoint()));
    hidden.map(|tool| tool.wire_name).collect()
}

/// Returns true if clients get a tiered list.
fn is_tiered(
    request: &CatalogueRequest<'_>,
    merged: &MergedList<'_>,
    settings: &CatalogueSettings,
) -> bool {
    match settings.mode.unwrap_or_default() {
        CatalogueMode::Full => false,
        CatalogueMode::Tiered => true,
        CatalogueMode::Auto => {
            let list = request.policy.settings_for("", "tools/list");
            let client = list.client_profile.as_deref().unwrap_or(request.client_name);
            let defers = settings.is_deferring(client) && merged.tools.len() <= MAX_DEFERRED_TOOLS;
            let estimator = list.estimator;
            let price = |tool: &MergedTool<'_>| estimator.price(tool.definition.as_bytes());
            let cost = match merged.full_bytes {
                Some(bytes) => bytes / BYTES_PER_TOKEN,
                None => merged.tools.iter().map(price).sum(),
            };
            !defers && cost > settings.threshold.unwrap_or(DEFAULT_THRESHOLD)
        }
    }
}

fn compile_list(
    request: &CatalogueRequest<'_>,
    merged: &MergedList<'_>,
    settings: &CatalogueSettings,
    findings: &Findings<'_>,
    is_tiered: bool,
) -> CompiledCatalogue {
    // Only page 1 of a long list reaches some clients: it starts with the tools to find the rest.
    let has_pages = merged.tools.len() > merged.page_size;
    // Clients that ignore changes of the list find the tools of servers that are late.
    let is_partial = merged.missing >= MANY_MISSING;
    let tools: Vec<Tool<'_>> =
        merged.tools.iter().filter_map(|tool| self::tool(request, tool, settings)).collect();
    let WrittenList { list, tools: listed } = write_list(&TierList {
        request,
        settings,
        estimator: &request.policy.settings_for("", "tools/list").estimator,
        tools: &tools,
        hidden: findings.hidden,
        unmatched: findings.unmatched,
        held: &findings.review.held,
        suspicious: &findings.review.suspicious,
        is_tiered,
        has_meta_tools: is_tiered || has_pages || is_partial,
    });
    // Tools that the catalogue alone makes callable need it in full mode, too: an unknown name is
    // answered with similar ones.
    let ranker = Settings {
        synonyms: settings.synonyms.iter().flatten().map(|group| group.join(" ")).collect(),
        ..Settings::default()
    };
    let index = index::compile(&tools, &ranker);
    CompiledCatalogue { entries: request.entries(index, &tools), list, tools: listed, is_tiered }
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
