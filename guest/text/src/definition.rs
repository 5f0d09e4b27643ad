//! Definitions in source code of common programming languages.

/// Keywords that begin a definition in common programming languages.
const KEYWORDS: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "impl",
    "mod",
    "def",
    "class",
    "function",
    "interface",
    "type",
    "func",
    "package",
    "namespace",
    "module",
    "const",
    "static",
    "record",
    "object",
    "protocol",
    "extension",
    "sub",
    "proc",
    "macro_rules!",
];
/// Keywords of schemas and configurations: GraphQL, Protocol Buffers, HCL. They also occur in
/// prose, so that their definitions must end with a brace.
const BLOCK_KEYWORDS: &[&str] = &[
    "input",
    "schema",
    "query",
    "mutation",
    "subscription",
    "message",
    "service",
    "resource",
    "data",
    "variable",
    "output",
    "provider",
];
/// Keywords of GraphQL whose definitions are one line: `union A = B | C`, `scalar D`.
const LINE_KEYWORDS: &[&str] = &["union", "scalar", "directive"];
/// Words that may precede one of the [`KEYWORDS`] in a definition.
const QUALIFIERS: &[&str] = &[
    "pub",
    "pub(crate)",
    "pub(super)",
    "async",
    "unsafe",
    "export",
    "default",
    "public",
    "private",
    "protected",
    "static",
    "final",
    "abstract",
    "extern",
    "override",
    "virtual",
    "inline",
    "internal",
    "sealed",
    "declare",
];

/// Returns true if a line of source code begins a definition, such as that of a function, type or
/// module.
#[must_use]
pub fn is_definition(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let indent = text.len() - text.trim_start().len();
    // Deeper lines are statements: a member of a class is indented by four at most.
    if indent > 4 {
        return false;
    }
    let mut words = text.split_whitespace().peekable();
    let mut qualified = false;
    while words.peek().is_some_and(|word| QUALIFIERS.contains(word)) {
        let word = words.next();
        qualified |= word != Some("static");
        if words.peek().is_none() {
            return false;
        }
    }
    let Some(word) = words.next() else { return false };
    let name = words.next();
    if indent == 0 && BLOCK_KEYWORDS.contains(&word) {
        return text.trim_end().ends_with('{');
    }
    if indent == 0 && LINE_KEYWORDS.contains(&word) {
        let rest = words.next();
        return name
            .is_some_and(|name| name.starts_with('@') || rest.is_none_or(|rest| rest == "="));
    }
    let named = name.is_some_and(|name| {
        name.starts_with(|first: char| {
            first.is_alphabetic() || matches!(first, '_' | '<' | '(' | '*')
        })
    });
    // Members of a class may have no keyword: `public String name(…)`.
    (KEYWORDS.contains(&word.trim_end_matches(['<', '('])) || word.starts_with("impl<")) && named
        || (qualified && text.contains('('))
}
