//! Reviews definitions: those that the upstream changed, and those with suspicious texts.

use context_guard_catalogue::document::Json;
use context_guard_catalogue::suspicion::suspicions;
use serde_json::{Value, json};

use super::merged::{MergedList, MergedTool};
use crate::policy::{CatalogueSettings, HoldReason};

/// The maximum number of suspicious texts that are reported for one list.
const MAX_REPORTED: usize = 200;

/// The result of a review, for the host.
#[derive(Default)]
pub(super) struct Review {
    /// The client-visible names of withheld tools.
    pub(super) held: Vec<String>,
    /// The severe suspicious texts: `tool`, `rule`, `path` and `excerpt` of each.
    pub(super) suspicious: Vec<Value>,
}

/// Returns true if the definition of a tool has a severe suspicious text, or cannot be examined,
/// unless policy trusts the tool. `endpoint` is the tool as `server::tool`.
#[must_use]
pub fn is_suspicious(settings: &CatalogueSettings, endpoint: &str, definition: &str) -> bool {
    let is_severe = |json: Json| suspicions(&json).iter().any(|found| found.kind.is_severe());
    !settings.is_trusted(endpoint) && Json::parse(definition).is_none_or(is_severe)
}

/// Reviews all definitions, and removes those from the list that policy withholds.
pub(super) fn review(merged: &mut MergedList<'_>, settings: &CatalogueSettings) -> Review {
    let mut suspicious = Vec::new();
    let (changed, approved) = (&merged.changed, &merged.approved);
    let mut is_held = |tool: &mut MergedTool<'_>| {
        let endpoint = tool.endpoint();
        if settings.is_trusted(&endpoint) {
            return false;
        }
        // A definition that cannot be read cannot be examined.
        let mut is_suspicious = Json::parse(tool.definition).is_none();
        for suspicion in Json::parse(tool.definition).iter().flat_map(suspicions) {
            is_suspicious |= suspicion.kind.is_severe();
            if suspicion.kind.is_severe() && suspicious.len() < MAX_REPORTED {
                let rule = suspicion.kind.name();
                suspicious.push(json!({"tool": endpoint, "rule": rule, "path": suspicion.path,
                    "excerpt": suspicion.excerpt}));
            }
        }
        let is_changed = changed.contains(&endpoint);
        !approved.contains(&endpoint)
            && ((is_changed && settings.holds(HoldReason::Changed))
                || (is_suspicious && settings.holds(HoldReason::Suspicious)))
    };
    let held = merged.tools.extract_if(.., |tool| is_held(tool)).map(|tool| tool.wire_name);
    let held = held.collect();
    Review { held, suspicious }
}
