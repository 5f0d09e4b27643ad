//! The arguments of `context_guard_run`.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// The default time limit of a program, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// The maximum time limit of a program, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 30_000;
/// The maximum number of calls of a program, which is also the default.
const MAX_CALLS: u64 = 50;
/// The maximum size of a program, in bytes.
const MAX_CODE_BYTES: usize = 256 << 10;
/// The maximum number of cursors or of declarations in one call.
const MAX_NAMES: usize = 100;
/// The names of the arguments, for errors.
const NAMES: &str = "code, input, cursors, declare, timeoutMs, maxCalls";

/// The arguments of a run.
#[derive(Debug, PartialEq)]
pub(super) struct RunArguments {
    pub(super) code: String,
    /// The value of the program's variable `input`, as JSON.
    pub(super) input: String,
    pub(super) cursors: Vec<String>,
    /// The tools to declare instead of running a program.
    pub(super) declare: Vec<String>,
    pub(super) timeout: Duration,
    pub(super) max_calls: usize,
}

impl RunArguments {
    /// Parses the arguments in a `tools/call` request.
    ///
    /// # Errors
    /// The reason, for the author of the program.
    pub(super) fn parse(request: &[u8]) -> Result<Self, String> {
        let request: Value = serde_json::from_slice(request).map_err(|error| error.to_string())?;
        let empty = Map::new();
        let arguments = request.pointer("/params/arguments").and_then(Value::as_object);
        let arguments = arguments.unwrap_or(&empty);
        let known: Vec<&str> = NAMES.split(", ").collect();
        if let Some(name) = arguments.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("unknown argument `{name}`; the arguments are {NAMES}"));
        }
        // Strict clients send null for what they leave out.
        let given = |name: &str| arguments.get(name).filter(|value| !value.is_null());
        let code = match given("code") {
            Some(Value::String(code)) => code.clone(),
            Some(_) => return Err("code must be a text: the program".to_owned()),
            None => String::new(),
        };
        let declare = texts("declare", given("declare"))?;
        if code.trim().is_empty() && declare.is_empty() {
            return Err("pass a program as code, as in {\"code\": \"return 1 + 1\"}".to_owned());
        }
        if !code.trim().is_empty() && !declare.is_empty() {
            return Err("declare returns declarations and runs nothing: leave out code".to_owned());
        }
        if code.len() > MAX_CODE_BYTES {
            return Err(format!(
                "code has {} bytes; the maximum is {MAX_CODE_BYTES}. Pass data as input.",
                code.len()
            ));
        }
        let number = |name: &str, default, range: std::ops::RangeInclusive<u64>| match given(name) {
            None => Ok(default),
            Some(value) => {
                value.as_u64().filter(|number| range.contains(number)).ok_or_else(|| {
                    format!(
                        "{name} must be a whole number from {} to {}",
                        range.start(),
                        range.end()
                    )
                })
            }
        };
        let timeout = number("timeoutMs", DEFAULT_TIMEOUT_MS, 1..=MAX_TIMEOUT_MS)?;
        let max_calls = number("maxCalls", MAX_CALLS, 0..=MAX_CALLS)?;
        Ok(Self {
            code,
            input: input(given("input").unwrap_or(&Value::Null)),
            cursors: texts("cursors", given("cursors"))?,
            declare,
            timeout: Duration::from_millis(timeout),
            max_calls: usize::try_from(max_calls).unwrap_or_default(),
        })
    }
}

/// Returns the value of the program's variable `input` as JSON. A string that contains a JSON
/// object or list is passed as that value, because schemas of model APIs have no type for any
/// value.
fn input(value: &Value) -> String {
    let text = value.as_str().map(str::trim).filter(|text| text.starts_with(['{', '[']));
    let json = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    json.map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the strings of a list, or a single string as a list. `name` is the argument, for errors.
fn texts(name: &str, value: Option<&Value>) -> Result<Vec<String>, String> {
    let wrong = || format!("{name} must be a list of texts");
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(all)) if all.len() > MAX_NAMES => {
            Err(format!("{name} has {} entries; the maximum is {MAX_NAMES}", all.len()))
        }
        Some(Value::Array(all)) => {
            all.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(arguments: &Value) -> Result<RunArguments, String> {
        RunArguments::parse(json!({"params": {"arguments": arguments}}).to_string().as_bytes())
    }

    #[test]
    fn arguments_have_defaults() {
        let parsed = parse(&json!({"code": "return 1", "input": null})).unwrap();
        assert_eq!((parsed.input.as_str(), parsed.max_calls), ("null", 50));
        assert_eq!(parsed.timeout, Duration::from_secs(30));
    }

    #[test]
    fn input_may_be_json_in_a_text() {
        let input = |value: Value| parse(&json!({"code": "x", "input": value})).unwrap().input;
        assert_eq!(input(json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(
            input(json!(r#"{"id": 12345678901234567890}"#)),
            r#"{"id": 12345678901234567890}"#
        );
        assert_eq!(input(json!("[1, 2]")), "[1, 2]");
        assert_eq!(input(json!("12")), r#""12""#);
        assert_eq!(input(json!("{no JSON")), r#""{no JSON""#);
    }

    #[test]
    fn wrong_arguments_are_refused_with_the_remedy() {
        for (arguments, reason) in [
            (json!({}), "pass a program"),
            (json!({"code": 1}), "must be a text"),
            (json!({"code": "x", "timeout": 1}), "unknown argument `timeout`"),
            (json!({"code": "x", "timeoutMs": 60_000}), "from 1 to 30000"),
            (json!({"code": "x", "maxCalls": 51}), "from 0 to 50"),
            (json!({"code": "x", "cursors": [1]}), "list of texts"),
            (json!({"code": "x", "declare": ["a.b"]}), "leave out code"),
            (json!({"code": "x".repeat(300_000)}), "the maximum is 262144"),
        ] {
            let error = parse(&arguments).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
