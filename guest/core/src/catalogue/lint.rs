//! Answers the host's own request to check definitions of tools.

use context_guard_catalogue::lint::{LintReport, LintedServer, RULES, lint};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CatalogueRequest, CatalogueStep, INVALID_PARAMS};

#[derive(Deserialize)]
struct LintParameters<'p> {
    #[serde(borrow)]
    servers: Vec<ListedServer<'p>>,
}

#[derive(Deserialize)]
struct ListedServer<'p> {
    name: String,
    /// The definitions of the server's tools, as `tools/list` returns them.
    #[serde(borrow)]
    tools: Vec<&'p RawValue>,
}

#[derive(Serialize)]
struct LintResult {
    #[serde(flatten)]
    report: LintReport,
    /// The names of all rules that the check applies.
    rules: &'static [&'static str],
}

pub(super) fn answer(request: &CatalogueRequest<'_>, parameters: &[u8]) -> CatalogueStep {
    let parameters: LintParameters<'_> = match serde_json::from_slice(parameters) {
        Ok(parameters) => parameters,
        Err(error) => {
            let reason = format!("invalid parameters: {error}");
            return request.answer(request.envelope.error(INVALID_PARAMS, &reason), true);
        }
    };
    let servers: Vec<LintedServer<'_>> = parameters
        .servers
        .iter()
        .map(|server| LintedServer {
            name: &server.name,
            definitions: server.tools.iter().map(|tool| tool.get()).collect(),
        })
        .collect();
    let estimator = request.policy.settings_for("", "tools/list").estimator;
    let report = lint(&servers, |text| estimator.price(text.as_bytes()));
    let result = LintResult { report, rules: &RULES };
    let json = serde_json::to_string(&result).unwrap_or_default();
    let members = json.strip_prefix('{').and_then(|json| json.strip_suffix('}'));
    request.answer(request.envelope.result(members.unwrap_or_default().as_bytes()), false)
}
