//! TypeScript declarations of tools, instead of a run.

use context_guard_protocol::glob;
use serde_json::Value;

use super::report::RunReport;
use crate::aggregator::Aggregator;
use crate::aggregator::client::Origin;
use crate::code::declaration;

/// The maximum number of tools that one call declares.
const MAX_TOOLS: usize = 200;

impl Aggregator {
    /// Returns the TypeScript declarations of the tools that match `names`. A name is
    /// `server.tool`, with `*` for any characters, or a client-visible name. Declares at most
    /// [`MAX_TOOLS`] tools. `estimate` returns the estimated tokens of a report, for its first
    /// line.
    pub(super) async fn declare(
        &self,
        origin: &Origin<'_>,
        names: &[String],
        estimate: impl AsyncFnOnce(&RunReport) -> u64,
    ) -> RunReport {
        let merged = self.lists.known_tools(origin).await;
        let (mut text, mut count) = (String::new(), 0_usize);
        for (server, (upstream, list)) in merged.each() {
            let withheld = self.withheld(origin, server).await;
            for entry in &list.entries {
                let full = format!("{upstream}.{}", entry.key);
                let client_name = self.router.client_names.to_client_name(server, &entry.key);
                let is_named =
                    names.iter().any(|name| glob::matches(name, &full) || *name == client_name);
                let is_hidden =
                    || withheld.has(&client_name) || self.is_hidden_tool(origin, &client_name);
                if !is_named || is_hidden() {
                    continue;
                }
                count += 1;
                if count <= MAX_TOOLS
                    && let Ok(definition) = serde_json::from_str::<Value>(&entry.json)
                {
                    text.push_str(&declaration(upstream, &definition));
                }
            }
        }
        if count == 0 {
            let names = names.join(", ");
            return RunReport::refused(format!(
                "no tool matches {names}: write SERVER.TOOL or SERVER.*"
            ));
        }
        if let Some(more @ 1..) = count.checked_sub(MAX_TOOLS) {
            text.push_str(&format!("// {more} more tools match: name fewer.\n"));
        }
        let report = RunReport::of_text(text);
        let tokens = estimate(&report).await;
        let tools = if count == 1 { "tool" } else { "tools" };
        report.headed(&format!("// {count} {tools}, about {tokens} tokens\n"))
    }
}
