//! The definition of the tool that runs programs.

/// The name of the tool that runs programs.
pub(in crate::aggregator) const RUN_TOOL: &str = "context_guard_run";

/// The definition of the tool, as in a list of tools. Each word costs tokens in every session.
pub(in crate::aggregator) const DEFINITION: &str = r#"{"name":"context_guard_run","description":"Runs a JavaScript program over complete results of tools; only what it returns costs tokens. Use it to filter, join, count or repeat calls. `await tools.SERVER.TOOL({…})` calls a read-only tool, `Promise.all` several at once. `open(cursor).rows()` streams the records of a withheld answer: .filter .map .groupBy .countBy .sum .top(n, field) .toArray. `tools.$search(\"…\")` finds tools. End with `return value`.","inputSchema":{"type":"object","properties":{"code":{"type":"string","description":"The body of an async function"},"input":{"type":"string","description":"The value of `input`: JSON, or else a text"},"cursors":{"type":"array","items":{"type":"string"},"description":"The value of `cursors`"},"declare":{"type":"array","items":{"type":"string"},"description":"Instead of code: SERVER.TOOL or SERVER.*, returns TypeScript declarations"},"timeoutMs":{"type":"integer","minimum":1,"maximum":30000},"maxCalls":{"type":"integer","minimum":0,"maximum":50}}},"annotations":{"openWorldHint":true}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_json_with_the_name_of_the_tool() {
        let definition: serde_json::Value = serde_json::from_str(DEFINITION).unwrap();
        assert_eq!(definition["name"], RUN_TOOL);
    }
}
