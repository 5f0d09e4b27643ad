//! The tool catalogue of a gateway: tiered lists, and the tools to search, describe, browse and
//! call other tools.
//!
//! The host sends the merged list of all upstreams through the guard once for each version of the
//! catalogue. The guard stores an index and the definitions, and answers later calls from them.

mod answer;
mod compile;
mod definitions;
mod describe;
mod http;
mod lint;
mod list;
mod merged;
mod resolve;
mod review;
mod stored;

use crate::json::text::quoted;
use crate::mcp::reply::Envelope;
use crate::policy::{CatalogueSettings, Policy};
use crate::snapshot::Keys;
use crate::snapshot::stored::{Entry, Loaded};

pub use self::answer::direct_call;
pub use self::definitions::{MetaTool, meta_tool};
pub use self::review::is_suspicious;

/// The member of `_meta` in which host and guard exchange facts about a merged list.
pub const CATALOGUE_META: &str = "dev.context-guard/catalogue";

/// The method of the host's requests for the body of an HTTP route. Clients cannot call it, because
/// hosts send it only with the version of a catalogue.
pub const ROUTE_METHOD: &str = "context-guard/catalogue";
/// The method of the host's requests to check definitions of tools. Clients cannot call it either.
pub const LINT_METHOD: &str = "context-guard/lint";
/// The JSON-RPC error code for invalid parameters.
pub const INVALID_PARAMS: i64 = -32_602;

/// A request to the catalogue, with everything that its answer depends on.
#[derive(Clone, Copy)]
pub struct CatalogueRequest<'a> {
    /// The policy, which has the settings of the catalogue.
    pub policy: &'a Policy,
    /// The signing keys. The names of stored entries derive from them.
    pub keys: &'a Keys,
    /// The version of the merged list, which the host chooses. The names of stored entries include
    /// it.
    pub version: &'a str,
    /// The name of a stateful client; empty for a stateless one, whose lists may not depend on it.
    pub client_name: &'a str,
    /// The JSON-RPC id and the protocol mode for the response.
    pub envelope: Envelope<'a>,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The age, in milliseconds, from which a stored catalogue is compiled again.
    pub max_age_ms: u64,
}

/// The next step for a request to the catalogue.
pub enum CatalogueStep {
    /// The host must first load the store entries with these keys.
    Load(Vec<String>),
    /// No stored catalogue exists or is current. The host must send the merged list to compile.
    Compile,
    /// The response to send to the client.
    Answer(CatalogueAnswer),
    /// The call that replaces the client's, to process as if the client had sent it.
    Call(Vec<u8>),
}

/// A response of the catalogue.
pub struct CatalogueAnswer {
    /// The JSON-RPC response.
    pub message: Vec<u8>,
    /// True if it reports an error.
    pub is_error: bool,
    /// True if the response contains definitions that may exceed the budget. The guard then shapes
    /// it like an answer of an upstream.
    pub needs_shaping: bool,
}

/// A catalogue compiled from a list of tools, before it is stored.
pub struct CompiledCatalogue {
    /// The entries to store: the index and the blocks of definitions.
    pub entries: Vec<Entry<'static>>,
    /// The list for the client, as a response to `tools/list`.
    pub list: Vec<u8>,
    /// The tools of `list`, as a JSON array.
    pub tools: String,
    /// True if the list lacks tools that the client can find by the catalogue.
    pub is_tiered: bool,
}

/// An error in a call, as a text for the model.
struct CatalogueError {
    text: String,
}

impl CatalogueError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl<'a> CatalogueRequest<'a> {
    /// Returns the policy's settings of the catalogue, or the defaults.
    fn settings(&self) -> CatalogueSettings {
        self.policy.catalogue().cloned().unwrap_or_default()
    }

    /// Answers `tools/call` of the catalogue's own tools, and of tools that the host does not know
    /// by name. `parameters` is the JSON of `params`.
    #[must_use]
    pub fn call(&self, parameters: &[u8], loaded: &Loaded) -> CatalogueStep {
        answer::call(self, parameters, loaded)
    }

    /// Answers the host's own request for the body of an HTTP route. `parameters` is the JSON of
    /// `params`: the `prefix` of all routes, the `segments` of the path after it, and the `query`
    /// as pairs of names and values. The result has `status` and `body`.
    #[must_use]
    pub fn route(&self, parameters: &[u8], loaded: &Loaded) -> CatalogueStep {
        http::answer(self, parameters, loaded)
    }

    /// Answers the host's own request to check the definitions of tools. `parameters` is the JSON
    /// of `params`: `servers`, each with a `name` and its `tools`. The result has the `findings`,
    /// the cost of the `servers`, and the names of all `rules`.
    #[must_use]
    pub fn lint(&self, parameters: &[u8]) -> CatalogueStep {
        lint::answer(self, parameters)
    }

    /// Compiles the merged list of all upstreams, as a response to `tools/list`. `None` if the
    /// message is not such a list.
    #[must_use]
    pub fn compile(&self, merged: &[u8]) -> Option<CompiledCatalogue> {
        compile::compile(self, merged)
    }

    /// Compiles the list of one upstream: a response to `tools/list` that has the guard's own
    /// additions. Returns `None` if the message is not a list, or continues on another page. Unless
    /// `always`, also returns `None` if clients get this list in full and without pins.
    #[must_use]
    pub fn compile_upstream(
        &self,
        upstream: &str,
        list: &[u8],
        always: bool,
    ) -> Option<CompiledCatalogue> {
        compile::compile_upstream(self, upstream, list, always)
    }

    /// Returns a tool result with one text block for each of `texts`.
    fn text(&self, texts: &[String]) -> CatalogueStep {
        let blocks: Vec<Vec<u8>> = texts
            .iter()
            .map(|text| [b"{\"type\":\"text\",\"text\":".as_slice(), &quoted(text), b"}"].concat())
            .collect();
        let members = [b"\"content\":[".as_slice(), &blocks.join(b",".as_slice()), b"]"].concat();
        self.answer(self.envelope.result(&members), false)
    }

    /// Returns a tool result with `isError`, so that the model sees the error.
    fn fail(&self, error: &CatalogueError) -> CatalogueStep {
        self.answer(self.envelope.tool_error(&error.text), true)
    }

    fn answer(&self, message: Vec<u8>, is_error: bool) -> CatalogueStep {
        CatalogueStep::Answer(CatalogueAnswer { message, is_error, needs_shaping: false })
    }
}
