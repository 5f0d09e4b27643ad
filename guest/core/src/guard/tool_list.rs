//! The response to `tools/list`.

use super::ticket::CalledTool;
use super::{Context, Fault, Guard, HAS_CATALOGUE, Shaped, TOOL_INFO_TTL_MS, unchanged};
use crate::catalogue::is_suspicious;
use crate::encoding::Stored;
use crate::json::text::Form;
use crate::mcp::catalog::{self, ShapedCatalog, Withheld};
use crate::mcp::tool_info::ToolInfo;
use crate::policy::{CatalogueSettings, HoldReason, endpoint_name};
use crate::record::{Loss, Record};
use crate::snapshot::stored::Entry;
use crate::tokens::OriginalCost;

impl Guard {
    /// Returns the upstream's list with the guard's arguments and read tool. `None` if the message
    /// has no list, or if policy does not shape lists.
    pub(super) fn shaped_list(
        &self,
        cx: &Context<'_>,
        message: &[u8],
        first: bool,
    ) -> Result<Option<ShapedCatalog>, Fault> {
        let overrides = |name: &str| {
            self.policy.catalogue().and_then(|settings| settings.override_for(cx.upstream, name))
        };
        let settings = |name: &str| self.policy.settings_for(cx.upstream, name);
        let is_hidden = |name: &str| {
            let hides = |settings: &CatalogueSettings| {
                settings.is_hidden(&endpoint_name(cx.upstream, name))
            };
            self.policy.catalogue().is_some_and(hides)
        };
        let holds = self.policy.catalogue().filter(|policy| {
            HAS_CATALOGUE && cx.lists_tools.is_some() && policy.holds(HoldReason::Suspicious)
        });
        let is_held = |name: &str, definition: &[u8]| {
            holds.is_some_and(|policy| {
                let definition = std::str::from_utf8(definition).unwrap_or_default();
                is_suspicious(policy, &endpoint_name(cx.upstream, name), definition)
            })
        };
        let withheld = |name: &str, definition: &[u8]| match is_hidden(name) {
            true => Some(Withheld::Hidden),
            false => is_held(name, definition).then_some(Withheld::Held),
        };
        let catalog = catalog::shape(message, first, settings, overrides, withheld)?;
        Ok(catalog.filter(|_| settings("tools/list").shape))
    }

    /// Returns the store entries with information about the tools of a list.
    pub(super) fn tool_entries(
        &self,
        cx: &Context<'_>,
        tools: Vec<(String, ToolInfo)>,
    ) -> Vec<Entry<'static>> {
        let call = self.environment(cx, CalledTool::default(), None, 0);
        let entries = tools.into_iter().filter_map(|(name, info)| {
            let key = self.keys.tool(call.scope(&call.endpoint(&name))).into_iter().next()?;
            Some(Entry { key, value: info.to_bytes().into() })
        });
        entries.collect()
    }

    /// Adds the guard's arguments to the upstream's `tools/list` response, and stores information
    /// about each tool for later calls. Shortens a long list to a tiered one if clients see the
    /// tools of this upstream alone. `first` is true for the first page of the list.
    pub(super) fn tools<'m>(
        &self,
        cx: &Context<'_>,
        message: &'m [u8],
        first: bool,
        stateless: bool,
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        let base = self.policy.settings_for(cx.upstream, "tools/list");
        let price = |message: &[u8]| OriginalCost::estimate(&base.estimator, message, Form::Raw);
        let original = price(message);
        let mut record = Record::unchanged("tools/list", original, message.len(), base.threshold);
        let Some(mut catalog) = self.shaped_list(cx, message, first)? else {
            return Ok(unchanged(record));
        };
        let mut tiered = Vec::new();
        if HAS_CATALOGUE && first && cx.lists_tools.is_some() && !cx.full_list {
            tiered = self.tier(cx, &mut catalog, stateless, now_ms);
        }
        // Without the catalogue, clients could not find the other tools of a tiered list: if it is
        // not stored, the host calls the guard again without a store, and the list remains in full.
        let must_be_stored = !tiered.is_empty();
        let mut entries = self.tool_entries(cx, catalog.tools);
        entries.extend(tiered);
        record.mode = "catalog".to_owned();
        record.loss = Loss::Lossless;
        record.estimated_tokens = price(&catalog.message).tokens;
        record.response_bytes = catalog.message.len() as u64;
        Ok(Shaped {
            entries,
            message: Some(catalog.message),
            ttl_ms: TOOL_INFO_TTL_MS,
            must_be_stored,
            record,
        })
    }
}
