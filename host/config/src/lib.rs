//! The gateway file and the policy: YAML, JSON or TOML, with overrides by the environment.
//!
//! [`read`] returns a validated [`Config`], or all errors of the file with line and path.

#![forbid(unsafe_code)]

mod alert_rules;
mod alerts;
mod bundle;
mod catalogue_path;
mod check;
mod code;
mod config_secrets;
pub mod document;
mod error;
mod external;
mod filter_store;
mod fleet;
mod fleet_rules;
mod gateway_file;
mod guard;
mod import;
mod naming;
mod oauth_rules;
mod options;
mod otlp_rules;
pub mod policy;
mod process_rules;
mod records;
mod schema;
mod secret;
mod state;
mod timeouts;
mod tls;
mod tls_rules;
mod upstream;
mod upstream_sandbox;

pub use alert_rules::alert_rules;
pub use alerts::{
    AlertReceiver, AlertRule, AlertSettings, AlertWebhook, CALL_MEASURES, Comparison, Condition,
    GATEWAY_MEASURES,
};
pub use bundle::Bundle;
pub use catalogue_path::{OwnPaths, catalogue_prefix, is_below};
pub use check::{MIN_SIGNING_KEY_BYTES, References};
pub use code::{CodeSettings, CodeTools, ReadOnlyTools};
pub use error::{Error, Result};
pub use external::{External, ExternalApi, OverMaxBody};
pub use filter_store::FilterStore;
pub use fleet::Fleet;
pub use gateway_file::{Access, Admin, Config, Jwt, Limits, Naming, Policy, RateLimit, Tokens};
pub use guard::{Component, Requirement, Store};
pub use import::{
    Import, ImportedServer, VariablePair, guard_command, guarded_command, import, import_all,
    redact_arguments, same_server, upstream_name,
};
pub use oauth_rules::{is_scope, is_secure_url, is_url};
pub use options::{
    CacheOptions, HistorySettings, Mode, RecordingOptions, RollbackLimits, RolloutOptions,
};
pub use records::{Audit, OtlpSettings, Telemetry};
pub use secret::Secret;
pub use state::{history_file, read_or_create_secret, state_folder};
pub use timeouts::Timeouts;
pub use tls::{Tls, UpstreamTls};
pub use upstream::{
    Authorization, HttpTransport, Isolation, OAuth, ProtocolModeSetting, Rest, RestEndpoint,
    StderrLevel, Upstream, UpstreamLimits,
};
pub use upstream_sandbox::{SystemCalls, UpstreamSandbox};

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::document::{self as file, OVERRIDE, POLICY_OVERRIDE};

/// Reads and validates a gateway file. Relative paths refer to the folder of the file.
///
/// # Errors
/// [`Error::File`], [`Error::Format`] if the file cannot be parsed, [`Error::Config`] with all its
/// errors.
pub fn read(path: &Path) -> Result<Config> {
    read_with(path, References::Resolve)
}

/// Reads and validates a gateway file. `references` determines if references are resolved.
///
/// # Errors
/// As [`read`].
pub fn read_with(path: &Path, references: References) -> Result<Config> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::File { path: path.to_owned(), source })?;
    // Overrides of the policy apply when the policy is read.
    let environment = std::env::vars()
        .filter(|(name, _)| name.starts_with(OVERRIDE) && !name.starts_with(POLICY_OVERRIDE));
    parse(path, &text, environment, references)
}

/// Validates `text` as the contents of the gateway file at `path`. `overrides` are names and values
/// of environment variables that override members. `references` determines if references are
/// resolved.
///
/// # Errors
/// As [`read`].
pub fn parse(
    path: &Path,
    text: &str,
    overrides: impl IntoIterator<Item = (String, String)>,
    references: References,
) -> Result<Config> {
    let mut document = file::parse(path, text)?;
    if document.is_null() {
        document = Value::Object(serde_json::Map::new());
    }
    for (name, value) in overrides {
        file::override_with(&mut document, name.trim_start_matches(OVERRIDE), &value);
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    check::check(document, &folder, references).map_err(|issues| Error::Config {
        path: path.to_owned(),
        issues: file::with_lines(issues, path, text),
    })
}

/// Returns the JSON Schema of the gateway file.
#[must_use]
pub fn schema() -> Value {
    serde_json::to_value(schemars::schema_for!(Config)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, overrides: &[(&str, &str)]) -> std::result::Result<Config, String> {
        let overrides = overrides.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        parse(Path::new("gateway.yaml"), text, overrides, References::Resolve)
            .map_err(|error| error.to_string())
    }

    const ONE: &str = "upstreams:\n  - name: files\n    command: [cat]\n";

    #[test]
    fn environment_overrides_defaults() {
        let config = read(ONE, &[]).unwrap();
        assert_eq!(config.listen, "127.0.0.1:8808");
        assert_eq!(config.access.rate_limit.per_minute(), 100);
        assert_eq!(config.limits.request_bytes, 10 << 20);
        let overridden = read(
            ONE,
            &[
                ("CONTEXT_GUARD__LIMITS__REQUEST_BYTES", "4096"),
                ("CONTEXT_GUARD__UPSTREAMS__0__NAME", "renamed"),
                ("CONTEXT_GUARD__LISTEN", "127.0.0.1:1"),
            ],
        )
        .unwrap();
        assert_eq!(overridden.limits.request_bytes, 4096);
        assert_eq!(overridden.upstreams[0].name, "renamed");
        assert_eq!(overridden.listen, "127.0.0.1:1");
    }

    #[test]
    fn short_keys_and_empty_programs_are_errors() {
        let fault = |text: &str| read(text, &[]).unwrap_err();
        let short = fault(&format!("signingKeys: [short]\n{ONE}"));
        assert!(short.contains("signingKeys[0]: a signing key needs at least 16 bytes"), "{short}");
        let empty = fault(&ONE.replace("[cat]", "['']"));
        assert!(empty.contains("upstreams[0]: the program of `command` is empty"), "{empty}");
        let kept = format!("signingKeys: ['${{env:K}}']\n{ONE}");
        assert!(parse(Path::new("g.yaml"), &kept, [], References::Keep).is_ok());
    }

    #[test]
    fn errors_have_line_and_path() {
        let faults = read(
            "listen: 127.0.0.1:8808\nlimits:\n  concurency: 5\n  requestBytes: many\nupstreams:\n  - name: a__b\n    command: [cat]\n  - name: c\n    url: http://127.0.0.1:1/mcp\n    command: [cat]\n",
            &[],
        )
        .unwrap_err();
        for expected in [
            "line 3: limits.concurency",
            "did you mean `concurrency`",
            "line 4: limits.requestBytes",
            "line 6: upstreams[0].name",
            "line 8: upstreams[1]",
        ] {
            assert!(faults.contains(expected), "{expected} is not in:\n{faults}");
        }
    }

    #[test]
    fn wrong_types_show_what_is_expected() {
        let text = format!("listen: 8808\naccess: {{rateLimit: 0}}\n{ONE}");
        let faults = read(&text, &[]).unwrap_err();
        for expected in [
            "line 1: listen: expected string such as \"127.0.0.1:8808\", found integer",
            "line 2: access.rateLimit: expected object with burst, perMinute, found integer",
        ] {
            assert!(faults.contains(expected), "{expected} is not in:\n{faults}");
        }
    }

    #[test]
    fn secrets_are_resolved_and_hidden() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "hidden-token\n").unwrap();
        let path = folder.path().join("gateway.yaml");
        let text = "upstreams:\n  - name: a\n    url: http://127.0.0.1:1/mcp\n    headers:\n      X-Token: Bearer ${file:token}\n";
        let config = parse(&path, text, [], References::Resolve).unwrap();
        assert_eq!(config.upstreams[0].headers["X-Token"].expose(), "Bearer hidden-token");
        assert!(!format!("{config:?}").contains("hidden-token"));
        let missing = text.replace("file:token", "env:CONTEXT_GUARD_NO_SUCH_VARIABLE");
        let fault = parse(&path, &missing, [], References::Resolve).unwrap_err().to_string();
        assert!(
            fault.contains("CONTEXT_GUARD_NO_SUCH_VARIABLE") && fault.contains("line 5"),
            "{fault}"
        );
    }
}
