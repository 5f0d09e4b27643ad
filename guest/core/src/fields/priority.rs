//! Priorities of fields, derived from their names.

/// The priority of a record's field when not all fields fit the token budget, in falling order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldPriority {
    /// Identifies a record: ids, names, titles.
    Identity,
    /// The state or kind of a record.
    State,
    /// A time, total, URL, person, place or the like, by which records are often compared.
    Key,
    /// Any other field.
    Plain,
    /// Long text.
    Prose,
    /// Set by the schema, not by name: a field of a list inside a record that has a long text
    /// itself.
    Detail,
    /// Links for programs, hashes, and values that are the same in every record.
    Noise,
}

const IDENTITY: &[&str] = &[
    "id",
    "_id",
    "uuid",
    "guid",
    "key",
    "number",
    "iid",
    "name",
    "title",
    "slug",
    "login",
    "username",
    "subject",
    "label",
    "sku",
    "symbol",
    "path",
    "filename",
    "file",
    "headline",
    "identifier",
    "code",
    "handle",
    "hostname",
    "host",
    "question",
];

/// The last words of field names that identify a record, such as `full_name`.
const IDENTITY_ENDS: &[&str] = &["name", "title"];

const STATE: &[&str] = &[
    "status",
    "state",
    "type",
    "kind",
    "level",
    "severity",
    "priority",
    "phase",
    "category",
    "conclusion",
    "outcome",
];

const KEY: &[&str] = &[
    "line",
    "created",
    "updated",
    "modified",
    "published",
    "date",
    "time",
    "timestamp",
    "at",
    "start",
    "started",
    "end",
    "ended",
    "due",
    "closed",
    "merged",
    "total",
    "totals",
    "count",
    "amount",
    "price",
    "cost",
    "sum",
    "quantity",
    "qty",
    "balance",
    "size",
    "score",
    "rating",
    "currency",
    "error",
    "errors",
    "reason",
    "result",
    "url",
    "href",
    "link",
    "uri",
    "version",
    "author",
    "owner",
    "assignee",
    "user",
    "branch",
    "ref",
    "language",
    "role",
    "id",
    "ids",
    "city",
    "country",
    "guest",
    "in",
    "out",
    "from",
    "to",
    "day",
    "year",
    "month",
    "value",
    "unit",
    "email",
    "number",
    "code",
    "key",
    "slug",
    "summary",
    "section",
    "term",
];

const PROSE: &[&str] = &[
    "body",
    "description",
    "content",
    "text",
    "notes",
    "note",
    "comment",
    "readme",
    "html",
    "markdown",
    "message",
    "abstract",
    "bio",
    "snippet",
    "excerpt",
];

const NOISE: &[&str] = &[
    "node_id",
    "gravatar_id",
    "etag",
    "hash",
    "checksum",
    "signature",
    "links",
    "_links",
    "self",
    "permalink",
    "resourceversion",
    "managedfields",
    "permissions",
    "reactions",
    "debug",
    "_debug",
    "trace",
    "internal",
    "__typename",
    "schema",
    "$schema",
    "avatar",
    "icon",
    "thumbnail",
    "generation",
    "uid",
    "selflink",
    "cursor",
    "_rev",
    "_etag",
];

/// The names of members with the results of a document, such as findings and events.
const RESULTS: &[&str] = &[
    "results",
    "result",
    "findings",
    "issues",
    "failures",
    "errors",
    "vulnerabilities",
    "alerts",
    "events",
    "paths",
    "items",
    "data",
    "entries",
    "hits",
    "matches",
    "records",
    "rows",
    "tests",
    "incidents",
    "changes",
    "diagnostics",
    "messages",
    "violations",
];

/// The names of members to which the results of a document refer: definitions, settings and
/// descriptions of the tool.
const DEFINITIONS: &[&str] = &[
    "rules",
    "schemas",
    "definitions",
    "components",
    "$defs",
    "config",
    "configuration",
    "settings",
    "configsettings",
    "examples",
    "taxonomies",
    "artifacts",
    "tool",
    "i18n",
    "timing",
    "mappings",
    "prior_state",
    "provider_schemas",
];

/// Returns the rank of the part of a document under a key of this name: 0 for results, 2 for
/// definitions and settings, 1 for any other.
#[must_use]
pub fn section_rank(name: &str) -> u8 {
    let lower = name.to_lowercase();
    if DEFINITIONS.contains(&lower.as_str()) {
        2
    } else {
        u8::from(!RESULTS.contains(&lower.as_str()))
    }
}

/// The last words of names of numbers that are not quantities, so that their sums and means are
/// meaningless.
const NO_QUANTITIES: &[&str] = &[
    "id",
    "ids",
    "parent",
    "ref",
    "uid",
    "gid",
    "pid",
    "ppid",
    "tid",
    "number",
    "no",
    "num",
    "nr",
    "index",
    "idx",
    "port",
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "week",
    "lat",
    "lon",
    "lng",
    "latitude",
    "longitude",
    "x",
    "y",
    "z",
    "version",
    "revision",
    "line",
    "column",
    "row",
    "col",
    "zip",
    "postcode",
    "postal",
    "code",
    "key",
    "phone",
    "timestamp",
    "ts",
    "time",
    "at",
    "date",
    "epoch",
    "created",
    "updated",
    "modified",
    "position",
    "offset",
    "seq",
    "sequence",
    "order",
    "rank",
    "generation",
    "hash",
    "start",
    "end",
];

/// Returns true if a number of this name is a quantity, which has a sum and a mean.
#[must_use]
pub fn is_quantity(name: &str) -> bool {
    let words = words(name);
    words.last().is_none_or(|last| !NO_QUANTITIES.contains(&last.as_str()))
}

/// Returns the words of a field name in lower case: `createdAt`, `created_at` and `created-at` all
/// give `created` and `at`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut lower = false;
    for character in name.chars() {
        let new = character.is_uppercase() && lower;
        lower = character.is_lowercase() || character.is_ascii_digit();
        if !character.is_alphanumeric() || new {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the priority of a field of this name.
#[must_use]
pub fn field_priority(name: &str) -> FieldPriority {
    let lower = name.to_lowercase();
    let words = words(name);
    let (first, last) =
        (words.first().map_or("", String::as_str), words.last().map_or("", String::as_str));
    let is = |list: &[&str]| list.contains(&lower.as_str());
    // A record has one link that people follow; the others are for programs.
    let program_link = matches!(last, "url" | "uri" | "href" | "link")
        && words.len() > 1
        && !matches!(first, "html" | "web" | "page" | "external" | "public" | "share");
    let picture = words
        .iter()
        .any(|word| matches!(word.as_str(), "avatar" | "icon" | "gravatar" | "thumbnail"));
    if is(NOISE) || program_link || picture {
        FieldPriority::Noise
    } else if is(IDENTITY) || IDENTITY_ENDS.contains(&last) {
        FieldPriority::Identity
    } else if STATE.contains(&last) {
        FieldPriority::State
    } else if PROSE.contains(&last) {
        FieldPriority::Prose
    } else if words.iter().any(|word| KEY.contains(&word.as_str())) {
        FieldPriority::Key
    } else {
        FieldPriority::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_words() {
        for (name, expected) in [
            ("id", FieldPriority::Identity),
            ("full_name", FieldPriority::Identity),
            ("displayName", FieldPriority::Identity),
            ("created_at", FieldPriority::Key),
            ("checkIn", FieldPriority::Key),
            ("bookingStatus", FieldPriority::State),
            ("html_url", FieldPriority::Key),
            ("followers_url", FieldPriority::Noise),
            ("avatar_url", FieldPriority::Noise),
            ("node_id", FieldPriority::Noise),
            ("Description", FieldPriority::Prose),
            ("site_admin", FieldPriority::Plain),
        ] {
            assert_eq!(field_priority(name), expected, "{name}");
        }
    }
}
