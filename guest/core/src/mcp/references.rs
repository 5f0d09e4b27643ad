//! References in the arguments of calls: an object `{"$ref": "<cursor>#/items/3/body"}` refers to a
//! value of a stored answer. The value replaces the object before the upstream sees the call.

use super::read::{ReadError, SnapshotReader};
use crate::json::Span;
use crate::json::edit::Edits;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::{Form, quoted, visible};
use crate::policy::{EndpointSettings, endpoint_name};
use crate::query::verbatim::verbatim_value;
use crate::snapshot::index::SnapshotBody;
use crate::snapshot::stored::Loaded;
use crate::snapshot::{Cursor, StoredSnapshot};
use context_guard_protocol::glob;

/// The only key of an object that is a reference.
const KEY: &str = "$ref";
/// The maximum number of references in one call.
const MAX_REFERENCES: usize = 100;
/// The maximum number of characters of a cursor or a path in an error message.
const MAX_SHOWN_CHARS: usize = 200;

/// The arguments of a call, with references replaced by values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResolvedArguments {
    /// The arguments as a JSON object.
    pub arguments: Vec<u8>,
    /// The endpoints of the answers that contain the values, without duplicates: `upstream::tool`.
    pub sources: Vec<String>,
}

/// A reference in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    /// The span of the object.
    span: Span,
    cursor: String,
    /// The path of the value in the answer. `None` for the whole answer.
    path: Option<String>,
}

impl Reference {
    /// Parses the value of the member `$ref`. `None` if it does not begin with a cursor, such as a
    /// reference inside a JSON Schema.
    fn parse(text: &str, span: Span) -> Option<Self> {
        let (cursor, path) = match text.split_once('#') {
            Some((cursor, path)) => (cursor, Some(path.to_owned())),
            None => (text, None),
        };
        Cursor::is_like(cursor).then(|| Self { span, cursor: cursor.to_owned(), path })
    }

    /// Returns the reference for an error message.
    fn text(&self) -> String {
        let path = self.path.as_ref().map_or_else(String::new, |path| {
            format!("#{}", path.chars().take(MAX_SHOWN_CHARS).collect::<String>())
        });
        format!("{}{path}", self.cursor.chars().take(MAX_SHOWN_CHARS).collect::<String>())
    }
}

/// Returns true if the arguments of a call may contain references. A key with escapes is not found.
/// O(n), but fast.
#[must_use]
pub fn may_have_references(arguments: &[u8]) -> bool {
    memchr::memmem::find(arguments, b"\"$ref\"").is_some()
}

/// Returns the references in a JSON object, in document order.
fn find(arguments: &[u8]) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut scanner = Scanner::new(arguments, Form::Raw);
    // The request was parsed before. The object itself is no reference.
    let _ = scanner.object(|scanner, _| add(scanner, &mut found));
    found
}

/// Appends the references in the value at the scanner's position to `found`.
fn add(scanner: &mut Scanner<'_>, found: &mut Vec<Reference>) -> Scan<()> {
    match scanner.kind()? {
        Kind::Object => {
            let start = scanner.position();
            let (mut members, mut reference) = (0_usize, None);
            scanner.object(|scanner, key| {
                members += 1;
                if scanner.bytes(&key) == KEY.as_bytes() && scanner.kind()? == Kind::String {
                    let text = scanner.string()?;
                    reference = Some(scanner.decode(&text));
                    return Ok(());
                }
                add(scanner, found)
            })?;
            let span = start..scanner.position();
            let reference = reference.filter(|_| members == 1);
            found.extend(reference.and_then(|text| Reference::parse(&text, span)));
            Ok(())
        }
        Kind::Array => scanner.array(|scanner| add(scanner, found)),
        Kind::String | Kind::Scalar => scanner.skip_value().map(drop),
    }
}

impl SnapshotReader<'_> {
    /// Replaces the references in `arguments`, a JSON object, by the values of stored answers of
    /// the principal. `settings` are those of the called tool. Returns `None` if there are no
    /// references. O(arguments and answers).
    ///
    /// # Errors
    /// Returns [`ReadError`] if entries are not loaded, or if a reference cannot be replaced.
    pub fn resolve_references(
        &self,
        arguments: &[u8],
        settings: &EndpointSettings,
        loaded: &Loaded,
    ) -> Result<Option<ResolvedArguments>, ReadError> {
        let references = find(arguments);
        if references.len() > MAX_REFERENCES {
            return Err(ReadError::InvalidRequest(format!(
                "this call was not sent: its arguments have {} references, and at most {MAX_REFERENCES} are accepted: make several calls",
                references.len()
            )));
        }
        if references.is_empty() {
            return Ok(None);
        }
        let (mut edits, mut sources, mut bytes) = (Edits::default(), Vec::new(), 0_u64);
        for reference in references {
            let resolved = self.resolve(&reference, settings, bytes, loaded);
            let (value, source) = resolved.map_err(|error| match error {
                ReadError::Cursor(error) => ReadError::Reference(reference.text(), error),
                error => error,
            })?;
            bytes = bytes.saturating_add(value.len() as u64);
            check_size(&reference, bytes, settings)?;
            edits.replace(reference.span, value);
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        Ok(Some(ResolvedArguments { arguments: edits.apply(arguments), sources }))
    }

    /// Returns the value of a reference as JSON, and the endpoint of the answer that contains it.
    /// `before` is the size in bytes of the values of earlier references in the call.
    fn resolve(
        &self,
        reference: &Reference,
        settings: &EndpointSettings,
        before: u64,
        loaded: &Loaded,
    ) -> Result<(Vec<u8>, String), ReadError> {
        let cursor = self.verify(&reference.cursor).map_err(ReadError::Cursor)?;
        if let Some(replay) = &cursor.replay {
            let source = endpoint_name(&replay.upstream, &replay.name);
            let reason = format!("the answer of {source} is not stored: write the value itself");
            return Err(refuse(reference, &reason));
        }
        let named = StoredSnapshot::open(&cursor.snapshot, loaded)?;
        let (upstream, name) = (named.index.upstream.clone(), named.index.endpoint.clone());
        let source = endpoint_name(&upstream, &name);
        let is_allowed = |pattern: &String| glob::matches(pattern, &source);
        if upstream != self.call.upstream && !settings.references_from.iter().any(is_allowed) {
            let reason = format!(
                "policy does not let answers of {source} reach this server; the operator permits it with referencesFrom: [\"{source}\"] for this tool. Write the value itself"
            );
            return Err(refuse(reference, &reason));
        }
        // Paths are those of the tool's answer, also with the cursor of a query.
        let reads_original =
            reference.path.is_some() || matches!(named.index.body, SnapshotBody::Projected(_));
        let original = named.index.original.clone().filter(|_| reads_original);
        let original = original.as_ref().map(|from| StoredSnapshot::open(&from.snapshot, loaded));
        let stored = original.transpose()?.unwrap_or(named);
        let form = stored.index.form;
        let Some(path) = &reference.path else {
            // Nothing is loaded that does not fit.
            check_size(reference, before.saturating_add(stored.index.bytes), settings)?;
            let bytes = stored.bytes(0, stored.index.bytes)?;
            return Ok((whole(&bytes, form), source));
        };
        let bytes = stored.bytes(0, stored.index.bytes)?;
        let of_source = self.call.policy.settings_for(&upstream, &name);
        let value = verbatim_value(&visible(&bytes, form), path, &of_source);
        Ok((value.map_err(|reason| refuse(reference, &reason))?, source))
    }
}

/// Returns a whole answer as a JSON value: structured content unchanged, a text as a string.
fn whole(bytes: &[u8], form: Form) -> Vec<u8> {
    match form {
        Form::Escaped => [b"\"".as_slice(), bytes, b"\""].concat(),
        Form::Raw if crate::json::scan::is_json(bytes, Form::Raw) => bytes.to_vec(),
        Form::Raw => quoted(&String::from_utf8_lossy(bytes)),
    }
}

fn check_size(
    reference: &Reference,
    bytes: u64,
    settings: &EndpointSettings,
) -> Result<(), ReadError> {
    let limit = settings.max_reference_bytes;
    if bytes <= limit {
        return Ok(());
    }
    let reason = format!(
        "its values have {bytes} bytes, and at most {limit} are accepted in a call (maxReferenceBytes in policy): refer to a part with a path, or make several calls"
    );
    Err(refuse(reference, &reason))
}

/// Returns the error for a reference that cannot be replaced.
fn refuse(reference: &Reference, reason: &str) -> ReadError {
    ReadError::InvalidRequest(format!(
        "this call was not sent, because of its reference {}: {reason}",
        reference.text()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::CursorFormat;
    use crate::snapshot::Keys;

    #[test]
    fn only_lone_cursors_are_references() {
        let keys = Keys::new([b"0123456789abcdef".as_slice()]).unwrap();
        let cursor = Cursor::new("AbCdEfGhIjKl", 50, 1_760_000_040_000);
        let cursor = cursor.sign(CursorFormat::Short, &keys, "alice");
        let arguments = format!(
            r##"{{"a":{{"$ref":"{cursor}"}},"b":[{{"c": {{ "$ref" : "{cursor}#/x/0" }}}}],
                "$ref":"{cursor}",
                "schema":{{"$ref":"#/definitions/x","y":{{"$ref":"https://a.b/c#/d"}}}},
                "more":{{"$ref":"{cursor}","n":1}},"list":[{{"$ref":["{cursor}"]}}]}}"##
        );
        let found = find(arguments.as_bytes());
        assert!(found.iter().all(|found| found.cursor == cursor));
        let texts: Vec<_> =
            found.iter().filter_map(|found| arguments.get(found.span.clone())).collect();
        let expected =
            [format!(r#"{{"$ref":"{cursor}"}}"#), format!(r##"{{ "$ref" : "{cursor}#/x/0" }}"##)];
        assert_eq!(texts, expected);
        assert_eq!(found[1].path.as_deref(), Some("/x/0"));
    }
}
