//! Edits the configurations of MCP clients, so that they start their servers behind the guard.
//!
//! Every edit replaces a few spans of the original text. Comments, order, indentation, unknown
//! members, line ends and byte-order marks remain. [`undo`] restores the original bytes if the file
//! did not change since.
//!
//! ```
//! use context_guard_install::{Client, Document, Guard, wrap};
//!
//! let text = br#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"]}}}"#;
//! let document = Document::parse(Client::Cursor, text)?;
//! let plan = wrap(&document, &Guard::new("/usr/bin/context-guard"), &|_| true)?;
//! assert_eq!(
//!     String::from_utf8_lossy(&plan.bytes),
//!     concat!(
//!         r#"{"mcpServers": {"files": {"command": "/usr/bin/context-guard", "#,
//!         r#""args": ["wrap", "--", "npx", "-y", "files"]}}}"#
//!     )
//! );
//! # Ok::<(), context_guard_install::Error>(())
//! ```

#![forbid(unsafe_code)]

mod client;
mod differences;
mod document;
mod edit;
mod endpoint;
mod error;
mod files;
mod links;
mod members;
mod record;
mod server;
mod tables;
mod tree;
mod undo;
mod wrap;

pub use client::{Client, Environment, Location, Platform, Scope, find_files};
pub use document::Document;
pub use endpoint::{Endpoint, replace_servers};
pub use error::{Error, Result};
pub use files::{FileState, Journal, read_file, write_file};
pub use links::{NamedCommand, claude_line, cursor_link, vs_code_link};
pub use record::{Record, RemovedServer, ServerRecord, Step};
pub use server::{Server, ServerState, StdioServer};
pub use tree::Syntax;
pub use undo::{UndoResult, undo};
pub use wrap::{Change, Guard, Plan, wrap};
