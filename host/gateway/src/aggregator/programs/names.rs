//! The names that a program can call, and suggestions for misspelled names.

use serde_json::Value;

use super::notes::MAX_NAMES;
use crate::aggregator::Aggregator;
use crate::aggregator::client::Origin;

impl Aggregator {
    /// Returns the names of the servers if `server` is empty, otherwise the names of the tools of
    /// `server` that a program may call.
    pub(super) async fn program_names(
        &self,
        origin: &Origin<'_>,
        server: &str,
    ) -> Result<Vec<String>, String> {
        if server.is_empty() {
            return Ok(self.servers().iter().map(|server| server.name.clone()).collect());
        }
        let (server, _) = self.tool_of(origin, server, "").await?;
        self.callable_names(origin, server).await
    }

    /// Returns the names of the tools of the upstream at index `server` that a program may call.
    pub(super) async fn callable_names(
        &self,
        origin: &Origin<'_>,
        server: usize,
    ) -> Result<Vec<String>, String> {
        let upstream = self.servers().get(server).map_or("", |server| server.name.as_str());
        let list = self.lists.tools_of(origin, server).await?;
        let withheld = self.withheld(origin, server).await;
        let names = list.entries.iter().filter(|entry| {
            let client_name = self.router.client_names.to_client_name(server, &entry.key);
            let definition = serde_json::from_str::<Value>(&entry.json);
            definition.is_ok_and(|definition| self.may_call(upstream, &entry.key, &definition))
                && !withheld.has(&client_name)
                && !self.is_hidden_tool(origin, &client_name)
        });
        Ok(names.map(|entry| entry.key.clone()).collect())
    }
}

/// Returns the names separated by commas. Of many names, returns the first few.
pub(super) fn joined<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names.get(..MAX_NAMES).unwrap_or(&names).join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// Returns ` (did you mean …?)` with the name that is most similar to `mistaken`. Empty if no name
/// is similar. Ignores case, `_` and `-`, because models write `listOrders` for `list_orders`.
pub(super) fn hint<'n>(mistaken: &str, names: impl Iterator<Item = &'n str>) -> String {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
    let given = plain(mistaken);
    let max = (given.chars().count() / 3).max(1);
    let near = names
        .map(|name| (strsim::damerau_levenshtein(&given, &plain(name)), name))
        .filter(|(distance, _)| *distance <= max)
        .min_by_key(|(distance, _)| *distance);
    near.map_or_else(String::new, |(_, name)| format!(" (did you mean `{name}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        let names = ["list_orders", "get_order", "drop"];
        let hint = |mistaken: &str| hint(mistaken, names.into_iter());
        assert_eq!(hint("listOrders"), " (did you mean `list_orders`?)");
        assert_eq!(hint("get_oder"), " (did you mean `get_order`?)");
        assert_eq!(hint("search"), "");
        assert_eq!(hint("drip"), " (did you mean `drop`?)");
    }

    #[test]
    fn many_names_are_cut() {
        let names: Vec<String> = (0..25).map(|at| at.to_string()).collect();
        assert!(joined(names.iter().map(String::as_str)).ends_with("19, and 5 more"));
    }
}
