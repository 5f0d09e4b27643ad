//! Checks the arguments of a call against the schema of a tool.
//!
//! The check covers types, required members, enumerations, constants, closed objects, items,
//! combinators and local references. It ignores other keywords. It accepts everything that a
//! complete validator accepts.

use std::fmt::Write as _;

use crate::document::{Json, quoted};
use crate::signature::type_text;

/// Maximum number of errors that are reported.
const MAX_ERRORS: usize = 5;
/// Maximum depth of schemas inside schemas.
const MAX_DEPTH: usize = 64;
/// Maximum number of schemas that are applied. Combinators can repeat work exponentially.
const MAX_STEPS: usize = 200_000;
/// Maximum number of characters of a value in an error.
const MAX_SHOWN_CHARACTERS: usize = 40;

/// Checks arguments. Returns an error for each of the first five problems, such as `arguments.days:
/// expected int, got "three"`. Empty if there is none.
///
/// ```
/// use context_guard_catalogue::arguments::check;
/// use context_guard_catalogue::document::Json;
///
/// let schema = Json::parse(r#"{"properties": {"days": {"type": "integer"}}}"#).unwrap();
/// let arguments = Json::parse(r#"{"days": "three"}"#).unwrap();
/// assert_eq!(check(&schema, &arguments), [r#"arguments.days: expected int, got "three""#]);
/// ```
#[must_use]
pub fn check(schema: &Json, arguments: &Json) -> Vec<String> {
    let dialect = schema.get("$schema").and_then(Json::as_str).unwrap_or_default();
    let mut checker = Checker {
        root: schema,
        // Nested identifiers change the base of local references, which are then not resolved.
        resolves: !has_nested_id(schema, 0),
        has_constants: !dialect.contains("draft-03") && !dialect.contains("draft-04"),
        steps: 0,
        path: "arguments".to_owned(),
        errors: Vec::new(),
    };
    checker.check(schema, arguments, 0);
    checker.errors.truncate(MAX_ERRORS);
    checker.errors
}

fn has_nested_id(schema: &Json, depth: usize) -> bool {
    let is_id = |name: &str| depth > 0 && (name == "$id" || name == "id");
    let in_members = schema.members().iter().any(|(name, value)| {
        (is_id(name) && value.as_str().is_some()) || has_nested_id(value, depth + 1)
    });
    in_members || schema.elements().iter().any(|value| has_nested_id(value, depth + 1))
}

struct Checker<'s> {
    root: &'s Json,
    resolves: bool,
    has_constants: bool,
    steps: usize,
    path: String,
    errors: Vec<String>,
}

impl<'s> Checker<'s> {
    /// Adds an error for each problem of a value. Returns true if there is none.
    fn check(&mut self, schema: &'s Json, value: &Json, depth: usize) -> bool {
        self.steps += 1;
        // Beyond the limits, values pass: the upstream checks them, too.
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            return true;
        }
        if *schema == Json::Bool(false) {
            return self.fail("not allowed");
        }
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            // Members beside a reference count in some dialects only.
            let target = self.root.resolve(reference).filter(|_| self.resolves);
            return target.is_none_or(|target| self.check(target, value, depth + 1));
        }
        if !self.has_type(schema, value) {
            return self.expect(schema, value);
        }
        if let Some(Json::Array(values)) = schema.get("enum")
            && !values.iter().any(|one| equal(one, value))
        {
            return self.expect(schema, value);
        }
        if let Some(constant) = schema.get("const").filter(|_| self.has_constants)
            && !equal(constant, value)
        {
            return self.expect(schema, value);
        }
        let combined = self.check_combinators(schema, value, depth);
        match value {
            Json::Object(members) => self.check_object(schema, members, depth) && combined,
            Json::Array(elements) => self.check_elements(schema, elements, depth) && combined,
            _ => combined,
        }
    }

    fn has_type(&self, schema: &Json, value: &Json) -> bool {
        // OpenAPI allows null with this keyword.
        if schema.get("nullable").is_some_and(Json::is_true) && *value == Json::Null {
            return true;
        }
        match schema.get("type") {
            Some(Json::String(kind)) => is_of_type(kind, value),
            Some(Json::Array(kinds)) => {
                // A kind that is no string is a schema, in the dialect of draft 3.
                kinds.iter().any(|kind| kind.as_str().is_none_or(|kind| is_of_type(kind, value)))
            }
            _ => true,
        }
    }

    /// Checks `allOf`, `anyOf` and `oneOf`. The check of subschemas accepts more than a complete
    /// one. For `oneOf`, only values without any match are therefore errors, and `not` is ignored.
    fn check_combinators(&mut self, schema: &'s Json, value: &Json, depth: usize) -> bool {
        let mut passed = true;
        for part in schema.get("allOf").map_or(&[][..], Json::elements) {
            passed &= self.check(part, value, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            let parts = schema.get(keyword).map_or(&[][..], Json::elements);
            let before = self.errors.len();
            if parts.is_empty() || parts.iter().any(|part| self.check(part, value, depth + 1)) {
                self.errors.truncate(before);
                continue;
            }
            // The errors of one alternative are more precise than its type.
            let tried = self.errors.len() - before;
            if parts.len() > 1 || tried != 1 {
                self.errors.truncate(before);
                self.expect(schema, value);
            }
            passed = false;
        }
        passed
    }

    fn check_object(&mut self, schema: &'s Json, members: &[(String, Json)], depth: usize) -> bool {
        let mut passed = true;
        for name in schema.get("required").map_or(&[][..], Json::elements) {
            if let Some(name) = name.as_str()
                && !members.iter().any(|(member, _)| member == name)
            {
                passed = self.in_member(name, |checker| checker.fail("required, but missing"));
            }
        }
        let properties = schema.get("properties").unwrap_or(&Json::Null);
        // Patterns are not evaluated: a member that none of the names describes may match one.
        let has_patterns =
            schema.get("patternProperties").is_some_and(|all| !all.members().is_empty());
        let additional = schema.get("additionalProperties").filter(|_| !has_patterns);
        for (name, value) in members {
            let part = match (properties.get(name), additional) {
                (Some(property), _) => property,
                (None, Some(Json::Bool(false))) => {
                    let reason = unknown_member(name, properties);
                    passed = self.in_member(name, |checker| checker.fail(&reason));
                    continue;
                }
                (None, Some(additional)) => additional,
                (None, None) => continue,
            };
            passed &= self.in_member(name, |checker| checker.check(part, value, depth + 1));
        }
        passed
    }

    fn check_elements(&mut self, schema: &'s Json, elements: &[Json], depth: usize) -> bool {
        let first = schema.get("prefixItems").map_or(0, |items| items.elements().len());
        let mut passed = true;
        for (at, element) in elements.iter().enumerate() {
            let part = match schema.get("items") {
                Some(Json::Array(items)) => items.get(at),
                other => other.filter(|_| at >= first),
            };
            let Some(part) = part else { continue };
            let length = self.path.len();
            let _ = write!(self.path, "[{at}]");
            passed &= self.check(part, element, depth + 1);
            self.path.truncate(length);
        }
        passed
    }

    /// Runs a check with the member `name` appended to the current path.
    fn in_member(&mut self, name: &str, check: impl FnOnce(&mut Self) -> bool) -> bool {
        let length = self.path.len();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let _ = if is_plain && !name.is_empty() {
            write!(self.path, ".{name}")
        } else {
            write!(self.path, "[{}]", quoted(&shown(name)))
        };
        let passed = check(self);
        self.path.truncate(length);
        passed
    }

    fn fail(&mut self, reason: &str) -> bool {
        // Combinators discard errors, so that a few more than are reported must be counted.
        if self.errors.len() < 2 * MAX_ERRORS {
            self.errors.push(format!("{}: {reason}", self.path));
        }
        false
    }

    fn expect(&mut self, schema: &Json, value: &Json) -> bool {
        if self.errors.len() >= 2 * MAX_ERRORS {
            return false;
        }
        let expected = type_text(self.root, schema);
        self.fail(&format!("expected {expected}, got {}", shown(&value.to_string())))
    }
}

fn is_of_type(kind: &str, value: &Json) -> bool {
    match kind {
        "null" => *value == Json::Null,
        "boolean" => matches!(value, Json::Bool(_)),
        "object" => matches!(value, Json::Object(_)),
        "array" => matches!(value, Json::Array(_)),
        "string" => matches!(value, Json::String(_)),
        "number" => matches!(value, Json::Number(_)),
        // 1.0 is an integer.
        "integer" => match value {
            Json::Number(number) => number.as_f64().is_none_or(|number| number.fract() == 0.0),
            _ => false,
        },
        // A kind of a later dialect.
        _ => true,
    }
}

/// Returns true if two values are equal. Numbers are compared by value, and objects independently
/// of the order of members.
fn equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => {
            left == right || (left.as_f64() == right.as_f64())
        }
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Json::Object(members), Json::Object(others)) => {
            members.len() == others.len()
                && members
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

fn unknown_member(name: &str, properties: &Json) -> String {
    let names: Vec<&str> = properties.members().iter().map(|(name, _)| name.as_str()).collect();
    match crate::similar::nearest(name, names.iter().copied(), 1).first() {
        Some(similar) => format!("unknown parameter (did you mean {}?)", quoted(&shown(similar))),
        None => "unknown parameter".to_owned(),
    }
}

/// Returns the beginning of a text, for an error message.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
