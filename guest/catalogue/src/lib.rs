//! Tool catalogues: search, signatures, scores and argument checks. Performs no I/O.
//!
//! [`index::compile`] writes the definitions of all tools into one flat byte string. [`Index`]
//! searches it in place, so that a search loads no more than these bytes.
//!
//! ```
//! use context_guard_catalogue::index::{self, Index, Settings};
//! use context_guard_catalogue::rank::SearchRequest;
//! use context_guard_catalogue::tool::Tool;
//!
//! let definition = r#"{"name": "get_forecast", "description": "Returns the weather forecast."}"#;
//! let tool = Tool::parse("weather", "weather__get_forecast", definition).unwrap();
//! let bytes = index::compile(&[tool], &Settings::default());
//! let index = Index::open(&bytes).unwrap();
//! let found = index.search(&SearchRequest::new("will it rain tomorrow"));
//! assert_eq!(index.tool(found.hits[0].tool).unwrap().wire_name, "weather__get_forecast");
//! ```
#![forbid(unsafe_code)]

pub mod arguments;
pub mod document;
pub mod index;
pub mod lint;
mod logarithm;
pub mod rank;
pub mod score;
mod sentence;
pub mod signature;

pub mod similar;
pub mod suspicion;
pub mod synonyms;
pub mod text;
pub mod tool;
mod vectors;

pub use index::Index;
