//! Error messages about programs: the position, the reason, similar names, and an example.

use std::collections::BTreeSet;

use jaq_core::compile::Undefined;
use jaq_core::load::parse::Term;
use jaq_core::load::{Lexer, Parser, span};

use crate::json::outline::Outline;
use crate::json::scan::Kind;
use crate::json::text::Form;
use crate::query::names::join_names;

/// The maximum number of distinct keys that are compared with a name.
const MAX_KEYS: usize = 5_000;
const EXAMPLE: &str = "for example: [.items[] | select(.state == \"open\")] | length";

/// Functions of jq that this build lacks, each with a replacement.
const MISSING: [(&str, &str); 10] = [
    ("input", "the input is the whole answer: write . instead"),
    ("inputs", "the input is the whole answer: write . or .[] instead"),
    ("now", "there is no clock: compare with a date as text"),
    ("env", "there is no environment"),
    ("halt", "write empty or error instead"),
    ("debug", "return the value instead"),
    ("stderr", "return the value instead"),
    ("localtime", "there are no zones: write gmtime"),
    ("strflocaltime", "there are no zones: write strftime"),
    ("getpath_or_null", "write getpath"),
];

/// Parses a program.
///
/// # Errors
/// Returns a message for the caller with the position and the reason.
pub(super) fn parse(program: &str) -> Result<Term<&str>, String> {
    let tokens = Lexer::new(program).lex().map_err(|errors| {
        let (expected, found) = match errors.into_iter().next() {
            Some(error) => (error.0.as_str().to_owned(), error.1),
            None => return format!("jq cannot be read; {EXAMPLE}"),
        };
        position(program, found, &expected)
    })?;
    Parser::new(&tokens).parse(|parser| parser.term()).map_err(|errors| {
        let Some((expected, found)) = errors.into_iter().next() else {
            return format!("jq cannot be read; {EXAMPLE}");
        };
        let found = found.map_or("", |token| token.0);
        position(program, found, expected.as_str())
    })
}

/// Returns the error for a position in a program at which `expected` is missing.
fn position(program: &str, found: &str, expected: &str) -> String {
    // The rest after the program is empty, and no part of it.
    let at = if found.is_empty() { program.len() } else { span(program, found).start };
    let rest: String = program.get(at..).unwrap_or_default().chars().take(30).collect();
    let place = if rest.trim().is_empty() {
        "at its end".to_owned()
    } else {
        format!("at character {} ({rest:?})", at + 1)
    };
    let hint = match () {
        () if program.contains('\'') => "; texts have double quotes in jq",
        () if program.contains("&&") || program.contains("||") => {
            "; write and, or instead of && and ||"
        }
        () => "",
    };
    format!("jq cannot be read {place}: {expected} is expected{hint}; {EXAMPLE}")
}

/// Returns the error for names that are not defined.
pub(super) fn undefined(program: &str, errors: &jaq_core::compile::Errors<&str, ()>) -> String {
    let first = errors.iter().flat_map(|(_, errors)| errors).next();
    let Some((name, kind)) = first else {
        return format!("jq: the program cannot be compiled; {EXAMPLE}");
    };
    let what = match kind {
        Undefined::Var => "variable",
        Undefined::Label => "label",
        Undefined::Mod => "module",
        _ => "function",
    };
    let arguments = match kind {
        Undefined::Filter(0) => String::new(),
        Undefined::Filter(count) => format!(" of {count} arguments"),
        _ => String::new(),
    };
    let hint = match MISSING.iter().find(|(known, _)| known == name) {
        Some((_, hint)) => format!(": {hint}"),
        None if program.contains(&format!(".{name}")) => String::new(),
        None if what == "function" => format!(": for a field write .{name}, for a text \"{name}\""),
        None => String::new(),
    };
    format!("jq: there is no {what} {name}{arguments}{hint}; {EXAMPLE}")
}

/// Returns the error for a program that failed after `count` results.
pub(super) fn failure(reason: &str, count: usize, input: &[u8]) -> String {
    let mut reason: String = match reason.char_indices().nth(400) {
        Some((end, _)) => format!("{}\u{2026}", reason.get(..end).unwrap_or_default()),
        None => reason.to_owned(),
    };
    if reason.contains("cannot index") || reason.contains("cannot use") {
        let keys = top_level(input);
        reason = format!("{reason}; the input is {keys}");
    }
    let after = if count > 0 { format!(" after {count} results") } else { String::new() };
    // The engine of regular expressions is that of grep.
    let hint = match reason.contains("invalid regex") {
        true => "write several tests, such as test(\"a\") and (test(\"b\") | not)",
        false => "put ? after a step to skip values that it does not fit",
    };
    format!("jq failed{after}: {reason}; {hint}")
}

/// Describes the type and the keys of a program's input.
fn top_level(input: &[u8]) -> String {
    let outline = Outline::parse(input, Form::Raw, &(0..input.len()));
    let Ok(outline) = outline else { return "not JSON".to_owned() };
    let names = crate::fields::mask::names(&outline, 0);
    match outline.node(0).map(|node| node.kind) {
        Some(Kind::Array) => {
            format!("a list, whose elements have: {}", join_names(&names, 20))
        }
        Some(Kind::Object) => format!("an object with: {}", join_names(&names, 20)),
        _ => "one value".to_owned(),
    }
}

/// Returns notes about keys that a program reads but its input lacks.
pub(super) fn absent_keys(keys: &[String], input: &[u8]) -> Vec<String> {
    let absent: Vec<&String> = keys.iter().filter(|key| !has_key(input, key)).collect();
    if absent.is_empty() {
        return Vec::new();
    }
    let known = known_keys(input);
    let note = |key: &&String| {
        let near = known.iter().max_by(|left, right| {
            let score =
                |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &key.to_lowercase());
            score(left).total_cmp(&score(right))
        });
        let near = near
            .filter(|near| strsim::jaro_winkler(&near.to_lowercase(), &key.to_lowercase()) > 0.8);
        let hint = near.map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"));
        format!("no value has the key {key:?}{hint}")
    };
    absent.iter().take(3).map(note).collect()
}

/// Returns true if a JSON document has a key of this name, written without escapes.
fn has_key(input: &[u8], key: &str) -> bool {
    let quoted = crate::json::text::quoted(key);
    let is_key = |at: usize| {
        let after = input.get(at + quoted.len()..).unwrap_or_default();
        after.trim_ascii_start().first() == Some(&b':')
    };
    memchr::memmem::find_iter(input, &quoted).any(is_key)
        || key.chars().any(|c| !c.is_ascii_alphanumeric() && c != '_')
}

fn known_keys(input: &[u8]) -> Vec<String> {
    let Ok(outline) = Outline::parse(input, Form::Raw, &(0..input.len())) else {
        return Vec::new();
    };
    let mut keys = BTreeSet::new();
    for node in (0..outline.len()).filter_map(|id| outline.node(id)) {
        if !node.key.is_empty() && keys.len() < MAX_KEYS {
            keys.insert(outline.decoded(&node.key));
        }
    }
    keys.into_iter().collect()
}
