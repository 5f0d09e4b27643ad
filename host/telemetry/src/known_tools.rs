//! The names of tools that upstreams have listed.

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

/// The maximum number of stored names.
const MAX_TOOLS: usize = 20_000;
/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// The tools that upstreams have listed, by upstream. Other names are chosen by clients, and must
/// become neither labels nor keys.
#[derive(Default)]
pub(crate) struct KnownTools(RwLock<HashMap<String, HashSet<String>>>);

impl KnownTools {
    /// Adds the names of tools that an upstream lists. Ignores names that are too long, and names
    /// beyond the upstream's share: half of the places that other upstreams leave free. Further
    /// upstreams always have places.
    pub(crate) fn add<'n>(&self, upstream: &str, names: impl IntoIterator<Item = &'n str>) {
        let mut tools = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let others = tools.iter().filter(|(other, _)| *other != upstream);
        let others: usize = others.map(|(_, names)| names.len()).sum();
        let share = MAX_TOOLS.saturating_sub(others) / 2;
        let known = tools.entry(upstream.to_owned()).or_default();
        for name in names.into_iter().filter(|name| name.len() <= MAX_NAME_BYTES) {
            if known.len() < share && !known.contains(name) {
                known.insert(name.to_owned());
            }
        }
    }

    /// Returns true if the upstream has listed the tool.
    pub(crate) fn contains(&self, upstream: &str, tool: &str) -> bool {
        let tools = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tools.get(upstream).is_some_and(|known| known.contains(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let tools = KnownTools::default();
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        tools.add("files", ["read", &long]);
        assert!(tools.contains("files", "read") && !tools.contains("web", "read"));
        assert!(!tools.contains("files", &long));
        let names: Vec<String> = (0..MAX_TOOLS + 5).map(|at| at.to_string()).collect();
        tools.add("many", names.iter().map(String::as_str));
        assert!(tools.contains("many", &(MAX_TOOLS / 2 - 2).to_string()));
        assert!(!tools.contains("many", &(MAX_TOOLS / 2).to_string()));
        // No upstream takes all places.
        tools.add("web", ["search"]);
        assert!(tools.contains("web", "search"));
    }
}
