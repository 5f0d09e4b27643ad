//! The kinds of lists that the aggregator merges.

/// The name of the guard's own tool, and its name if an upstream has a tool of that name.
pub(super) const READ_TOOLS: [&str; 2] = ["context_guard_read", "context_guard_read_more"];

/// A kind of list.
pub(super) struct ListKind {
    pub(super) method: &'static str,
    /// The member of the result that contains the entries.
    pub(super) member: &'static str,
    /// The member of an entry that identifies it.
    pub(super) key: &'static str,
    /// The capability that an upstream needs.
    pub(super) capability: &'static str,
    /// The notification of a change. Empty if there is none.
    pub(super) changed: &'static str,
}

pub(super) const TOOLS: ListKind = ListKind {
    method: "tools/list",
    member: "tools",
    key: "name",
    capability: "tools",
    changed: "notifications/tools/list_changed",
};

/// All kinds.
pub(super) const LIST_KINDS: [ListKind; 5] = [
    TOOLS,
    ListKind {
        method: "prompts/list",
        member: "prompts",
        key: "name",
        capability: "prompts",
        changed: "notifications/prompts/list_changed",
    },
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
