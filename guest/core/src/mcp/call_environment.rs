//! The environment of a call: the only place that builds the context under which payloads are
//! shaped.

use crate::policy::{EndpointSettings, Policy, endpoint_name};
use crate::query::Query;
use crate::shape::context::{RequestOptions, ShapeContext};
use crate::shape::render::SchemaConstraint;
use crate::snapshot::{Keys, Replay, Scope};

/// The inputs of a call that do not depend on the endpoint.
#[derive(Clone, Copy)]
pub struct CallEnvironment<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The live keys.
    pub keys: &'a Keys,
    /// The owner of snapshots and cursors.
    pub principal: &'a str,
    /// The upstream, part of the endpoint.
    pub upstream: &'a str,
    /// The structured content that the tool's schema allows.
    pub schema_constraint: SchemaConstraint,
    /// The name of the tool that follows cursors.
    pub read_tool: &'a str,
    /// The token budget that the caller names, if any.
    pub budget: Option<u64>,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The call that cursors repeat, if nothing is stored.
    pub replay: Option<&'a Replay>,
}

/// A tool or resource of the upstream.
pub struct Endpoint<'n> {
    /// `upstream::name`.
    pub full_name: String,
    /// The name without the upstream.
    pub name: &'n str,
    /// The settings of the endpoint.
    pub settings: EndpointSettings,
}

impl<'a> CallEnvironment<'a> {
    /// Looks up an endpoint of the upstream.
    #[must_use]
    pub fn endpoint<'n>(&self, name: &'n str) -> Endpoint<'n> {
        let full_name = endpoint_name(self.upstream, name);
        Endpoint { full_name, name, settings: self.policy.settings_for(self.upstream, name) }
    }

    /// Returns the scope of an endpoint: names and cursors are bound to it.
    #[must_use]
    pub fn scope<'c>(&'c self, endpoint: &'c Endpoint<'_>) -> Scope<'c> {
        Scope { principal: self.principal, endpoint: &endpoint.full_name }
    }

    /// Builds the context under which payloads of an endpoint are shaped. `arguments` is a hash of
    /// the tool's arguments.
    #[must_use]
    pub fn shape_context<'c>(
        &'c self,
        endpoint: &'c Endpoint<'c>,
        arguments: u128,
        options: RequestOptions,
        query: &'c Query,
    ) -> ShapeContext<'c> {
        ShapeContext {
            limits: &endpoint.settings,
            keys: self.keys,
            scope: self.scope(endpoint),
            name: endpoint.name,
            arguments,
            options,
            query,
            budget: self.budget,
            is_transformed: false,
            now_ms: self.now_ms,
            read_tool: self.read_tool,
            schema_constraint: self.schema_constraint,
            replay: self.replay,
        }
    }
}
