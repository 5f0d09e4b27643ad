//! The rules for the export to an OpenTelemetry collector.

use crate::document::Issue;
use crate::oauth_rules::{is_secure_url, is_url};
use crate::records::OtlpSettings;

/// Returns the errors in the settings of the export.
pub(crate) fn otlp_errors(settings: &OtlpSettings) -> Vec<Issue> {
    let path = |member| ["telemetry", "otlp", member];
    let mut issues = Vec::new();
    if let Some(endpoint) = &settings.endpoint {
        if !is_url(endpoint) {
            let reason = "an http:// or https:// URL is needed";
            issues.push(Issue::new(&path("endpoint"), reason));
        } else if !settings.headers.is_empty() && !is_secure_url(endpoint) {
            let reason = "headers need https://, or http:// on this machine";
            issues.push(Issue::new(&path("endpoint"), reason));
        }
    }
    issues
}
