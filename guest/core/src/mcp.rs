//! MCP, both eras: which requests matter, what of their answers is payload, how the answers are put together again.

pub mod answer;
pub mod arguments;
pub mod block;
pub mod catalog;
pub mod cost;
pub mod read;
mod relation;
pub mod reply;
pub mod request;
pub mod serve_part;
pub mod shape_answer;
pub mod tool_info;

/// The prefix of the guard's own `_meta` keys.
pub const META_PREFIX: &str = "dev.context-guard/";
/// The `_meta` key under which a shaped result is described.
pub const META_RESULT: &str = "dev.context-guard/result";
/// The scheme of the URIs that parts of resources are read under.
pub const READ_URI: &str = "context-guard://read/";
