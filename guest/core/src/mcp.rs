//! MCP messages: locates payloads in them and writes answers back. Both protocol modes.

pub mod answer;
pub mod arguments;
pub mod block;
pub mod call_environment;
pub mod catalog;
pub mod cost;
mod json_string;
mod override_definition;
pub mod read;
pub mod references;
mod relation;
pub mod reply;
pub mod request;
pub mod serve_part;
pub mod shape_answer;
pub mod stored_part;
pub mod tool_info;
pub mod write_answer;

/// The prefix of the guard's own `_meta` keys.
pub const META_PREFIX: &str = "dev.context-guard/";
/// The `_meta` key of the result metadata, which describes what a shaped result omits.
pub const META_RESULT: &str = "dev.context-guard/result";
/// The prefix of the resource URIs with which clients read the rest of a shortened resource. A
/// cursor follows the prefix.
pub const READ_URI: &str = "context-guard://read/";
