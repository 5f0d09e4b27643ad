//! Arguments of a call that contain values of stored answers, by reference or as shortened copies.

use super::Call;
use crate::json::scan::Scanner;
use crate::json::text::Form;
use crate::mcp::arguments::VERBATIM_ARGUMENT;
use crate::mcp::read::ReadError;
use crate::mcp::references::may_have_references;
use crate::policy::{EndpointSettings, GUARD_PREFIX};

/// The error message for a call whose arguments contain truncation marks, which only a shortened
/// answer has.
const TRUNCATION_MARK_ERROR: &str = "this call was not sent: its arguments hold a mark of what context-guard left out, such as \" ... [12 more words]\", so they are a part taken for the whole. \
     Read the whole with context_guard_read first. If the mark is really meant, add \"_guard_verbatim\": true.";

/// The addition to [`TRUNCATION_MARK_ERROR`] where references are allowed.
const REFERENCE_HINT: &str = " To pass a whole stored value on without reading it, write {\"$ref\": \"<nextCursor of its answer>#/path/to/the/value\"} in its place.";

/// The arguments of a call that is forwarded.
#[derive(Default)]
pub(super) struct ForwardedArguments {
    /// The tool's arguments if any of the request's were removed or replaced, else `None`.
    pub(super) rest: Option<Vec<u8>>,
    /// The guard's arguments, in the form of [`crate::mcp::arguments::SplitArguments::separated`].
    pub(super) separated: String,
    /// The endpoints of the stored answers whose values replaced references, without duplicates.
    pub(super) references: Vec<String>,
}

/// Returns the error message for a call whose arguments contain truncation marks.
pub(super) fn truncation_mark_error(settings: &EndpointSettings) -> String {
    let hint = if settings.references { REFERENCE_HINT } else { "" };
    format!("{TRUNCATION_MARK_ERROR}{hint}")
}

/// Returns true if `arguments`, the JSON object of a call's arguments, contain
/// [`VERBATIM_ARGUMENT`] with the value true. The name in other texts has no effect. O(n).
pub(super) fn permits_marks(arguments: &[u8]) -> bool {
    let mut is_permitted = false;
    let mut scanner = Scanner::new(arguments, Form::Raw);
    let scan = scanner.object(|scanner, key| {
        let value = scanner.skip_value()?;
        if scanner.is_key(&key, VERBATIM_ARGUMENT) {
            // Models sometimes quote booleans.
            is_permitted = matches!(scanner.bytes(&value), b"true" | b"\"true\"");
        }
        Ok(())
    });
    scan.is_ok() && is_permitted
}

impl Call<'_> {
    /// Replaces the references in the arguments of the tool `name` by values of stored answers.
    /// `rest` holds the arguments if those of the guard were removed from them. Returns the new
    /// arguments, and the endpoints of the stored answers.
    pub(super) fn resolve_references(
        &self,
        name: &str,
        settings: &EndpointSettings,
        renamed: bool,
        rest: Option<Vec<u8>>,
    ) -> Result<(Option<Vec<u8>>, Vec<String>), ReadError> {
        let arguments = rest.as_deref().unwrap_or(self.arguments());
        // A program gets its references as they are. They are replaced in the calls that it makes.
        let is_of_host = name.starts_with(GUARD_PREFIX);
        if !settings.references || is_of_host || !may_have_references(arguments) {
            return Ok((rest, Vec::new()));
        }
        let reader = self.reader(renamed);
        match reader.resolve_references(arguments, settings, self.loaded)? {
            Some(resolved) => Ok((Some(resolved.arguments), resolved.sources)),
            None => Ok((rest, Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_true_permits_marks() {
        for permitted in [r#"{"a":1,"_guard_verbatim":true}"#, r#"{"_guard_verbatim" : "true"}"#] {
            assert!(permits_marks(permitted.as_bytes()), "{permitted}");
        }
        for refused in [
            r#"{"_guard_verbatim":false}"#,
            r#"{"_guard_verbatim":null}"#,
            r#"{"a":"add \"_guard_verbatim\": true"}"#,
            r#"{"a":{"_guard_verbatim":true}}"#,
            "{}",
        ] {
            assert!(!permits_marks(refused.as_bytes()), "{refused}");
        }
    }
}
