//! Finds tools by the names that callers give.

use context_guard_catalogue::Index;
use context_guard_catalogue::similar::nearest;

use super::CatalogueError;

/// Maximum number of names that an error lists.
const MAX_NAMES: usize = 5;
/// Maximum number of characters of a caller's name in an error.
const MAX_NAME_CHARACTERS: usize = 100;

/// Returns the number of the tool with a name: `server__tool`, `server::tool`, or `tool` if only
/// one server has it. Fails with a message for the model.
pub(super) fn resolve(index: &Index<'_>, name: &str) -> Result<u32, CatalogueError> {
    let mut bare = Vec::new();
    for tool in index.tools_named(name) {
        let Some(found) = index.tool(tool) else { continue };
        let qualified = name.strip_prefix(found.server).and_then(|rest| rest.strip_prefix("::"));
        if found.wire_name == name || qualified == Some(found.name) {
            return Ok(tool);
        }
        // A server may list a name twice. Calls of both reach the same tool.
        if found.name == name && !bare.iter().any(|(_, known)| *known == found.wire_name) {
            bare.push((tool, found.wire_name));
        }
    }
    match bare.as_slice() {
        [(tool, _)] => Ok(*tool),
        [] => Err(CatalogueError::new(not_found(index, name))),
        _ => {
            let names: Vec<&str> =
                bare.iter().take(MAX_NAMES).map(|(_, wire_name)| *wire_name).collect();
            let more = if bare.len() > MAX_NAMES { ", …" } else { "" };
            let text = format!(
                "\"{}\" is on {} servers: {}{more}",
                shown(name),
                bare.len(),
                names.join(", ")
            );
            Err(CatalogueError::new(text))
        }
    }
}

fn not_found(index: &Index<'_>, name: &str) -> String {
    let tools: Vec<&str> = index.tools().map(|tool| tool.wire_name).collect();
    let mut similar = nearest(name, tools.iter().copied(), 3);
    if similar.is_empty() {
        // The name of a tool alone is short beside the names of servers.
        let named: Vec<_> = index.tools().collect();
        let bare = nearest(name, named.iter().map(|tool| tool.name), 3);
        let wire = |name: &&str| named.iter().find(|tool| tool.name == *name);
        similar = bare.iter().filter_map(wire).map(|tool| tool.wire_name).collect();
    }
    let name = shown(name);
    if similar.is_empty() {
        format!("no tool \"{name}\"")
    } else {
        format!("no tool \"{name}\"; similar: {}", similar.join(", "))
    }
}

/// Returns a caller's text for an error message: on one line, and shortened if it is long.
pub(super) fn shown(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = visible.take(MAX_NAME_CHARACTERS).collect();
    if text.chars().nth(MAX_NAME_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}
