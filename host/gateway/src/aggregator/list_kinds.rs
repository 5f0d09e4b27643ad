//! The kinds of MCP lists that the aggregator merges: tools, prompts, resources and so on.

/// A kind of MCP list, such as tools: the request that returns it, and the members of the result.
pub(super) struct ListKind {
    pub(super) method: &'static str,
    /// The member of the result that contains the entries, such as `tools`.
    pub(super) member: &'static str,
    /// The member that identifies an entry: `name` or a URI.
    pub(super) key: &'static str,
    /// The capability that upstreams with such a list declare.
    pub(super) capability: &'static str,
    /// The method of the notification that such a list has changed. Empty if MCP defines none.
    pub(super) changed: &'static str,
}

pub(super) const TOOLS: ListKind = ListKind {
    method: "tools/list",
    member: "tools",
    key: "name",
    capability: "tools",
    changed: "notifications/tools/list_changed",
};

pub(super) const PROMPTS: ListKind = ListKind {
    method: "prompts/list",
    member: "prompts",
    key: "name",
    capability: "prompts",
    changed: "notifications/prompts/list_changed",
};

/// All kinds of lists that the aggregator merges.
pub(super) const LIST_KINDS: [ListKind; 5] = [
    TOOLS,
    PROMPTS,
    ListKind {
        method: "resources/list",
        member: "resources",
        key: "uri",
        capability: "resources",
        changed: "notifications/resources/list_changed",
    },
    ListKind {
        method: "resources/templates/list",
        member: "resourceTemplates",
        key: "uriTemplate",
        capability: "resources",
        changed: "notifications/resources/list_changed",
    },
    ListKind {
        method: "tasks/list",
        member: "tasks",
        key: "taskId",
        capability: "tasks",
        changed: "",
    },
];
