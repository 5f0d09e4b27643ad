//! Error codes of JSON-RPC, of MCP, and of this project.

/// The body of the request is not JSON (JSON-RPC).
pub const PARSE_ERROR: i64 = -32700;
/// The message is not a valid request (JSON-RPC).
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist (JSON-RPC).
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid (JSON-RPC).
pub const INVALID_PARAMS: i64 = -32602;
/// Headers and body disagree (MCP 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client lacks a capability that the request needs (MCP 2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The server does not support the protocol revision (MCP 2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;

// The project's own codes are outside of the range that JSON-RPC reserves.

/// The upstream cannot be reached, or ended without an answer.
pub const UPSTREAM_UNAVAILABLE: i64 = -31001;
/// The upstream did not answer in time.
pub const UPSTREAM_TIMEOUT: i64 = -31002;
/// A request or an answer exceeds a size limit.
pub const TOO_LARGE: i64 = -31003;
/// The message has no equivalent in the protocol revision of the receiver.
pub const NOT_TRANSLATABLE: i64 = -31004;
/// The gateway refused the request because of authentication, authorization, or a rate limit.
pub const REFUSED: i64 = -31005;
/// The guard is not configured, or its configuration is invalid.
pub const NOT_CONFIGURED: i64 = -31006;
