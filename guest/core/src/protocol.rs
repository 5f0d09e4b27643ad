//! Where payloads sit in messages, and how messages are written.

pub mod mcp;
