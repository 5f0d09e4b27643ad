//! Searches for tools in stored catalogues of several sizes.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::inputs::{call, tool_servers};
use crate::sides::{Core, Sandbox, Side, Whole};
use crate::turns::{Bench, Turns};

const POLICY: &str = r#"{"catalogue": {"mode": "tiered"}}"#;
/// The numbers of tools, each with the name of its group.
const SIZES: [(usize, &str); 2] =
    [(1_000, "search-of-1000-tools"), (10_000, "search-of-10000-tools")];

/// Measures a search in each catalogue.
pub(crate) fn run(turns: &mut Turns) -> Result<()> {
    for (size, group) in SIZES {
        let (list, query) = tool_servers(size);
        let core = Core::new(POLICY)?.with_catalogue("1");
        let sandbox = Sandbox::new(POLICY)?.with_catalogue("1");
        let whole = Whole::new(POLICY)?.with_catalogue("1");
        turns.run(vec![
            bench(group, "core", &core, &list, &query)?,
            bench(group, "component", &sandbox, &list, &query)?,
            bench(group, "filter", &whole, &list, &query)?,
        ])?;
    }
    Ok(())
}

/// Stores a catalogue, and returns the bench of a search in it.
fn bench<'a, S: Side>(
    group: &str,
    form: &'static str,
    side: &'a S,
    list: &[u8],
    query: &str,
) -> Result<Bench<'a>> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let ticket = side.forward(request.as_bytes())?;
    side.shape(&ticket, list)?.context("the list was not shaped")?;
    let search = call("context_guard_search_tools", &json!({"queries": [query]}));
    let found = String::from_utf8(side.read(&search)?)?;
    ensure!(found.contains("server_1__") && !found.contains("isError"), "{group}, {form}: {found}");
    Ok(Bench::new(group, form, move || side.read(&search)))
}
