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
    /// Returns the declarations of the tools that match `names`: `server.tool`, with `*` for any
    /// characters.
    pub(super) async fn declare(&self, origin: &Origin<'_>, names: &[String]) -> RunReport {
        let merged = self.lists.known_tools(origin).await;
        let (mut text, mut count) = (String::new(), 0_usize);
        for (server, (upstream, list)) in merged.each() {
            for entry in &list.entries {
                let full = format!("{upstream}.{}", entry.key);
                let client_name = self.router.client_names.to_client_name(server, &entry.key);
                let is_named =
                    names.iter().any(|name| glob::matches(name, &full) || *name == client_name);
                if !is_named || self.is_hidden_tool(origin, &client_name) {
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
        match count {
            0 => RunReport::refused(format!(
                "no tool matches {}: write SERVER.TOOL or SERVER.*",
                names.join(", ")
            )),
            count if count > MAX_TOOLS => {
                let more = count - MAX_TOOLS;
                RunReport::of_text(format!("{text}// {more} more tools match: name fewer.\n"))
            }
            _ => RunReport::of_text(text),
        }
    }
}
