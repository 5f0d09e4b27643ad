//! The report of all sources.

use serde_json::{Value, json};

use super::{SourceState, Sources, shown};
use crate::layout::{BundleParts, PolicyPlace};
use crate::{Revision, Revisions};

impl Sources {
    /// Returns a JSON report of all sources: the state of each, and its difference from the active
    /// revision.
    #[must_use]
    pub fn report(&self, revisions: &Revisions) -> Value {
        let state = self.state();
        let layout = &state.layout;
        let active = revisions.active();
        let bundle = layout.bundle.as_deref();
        let name = |is_part: bool| bundle.filter(|_| is_part).map(BundleParts::name);
        let is_part = |has: fn(&BundleParts) -> bool| bundle.is_some_and(has);
        let policy = match (&layout.policy, layout.policy_file()) {
            (PolicyPlace::Inline(policy), _) if policy.json().is_empty() => {
                "default policy".to_owned()
            }
            (_, Some(path)) => shown(path),
            (_, None) => "policy".to_owned(),
        };
        let policy = name(is_part(|bundle| bundle.policy.is_some())).unwrap_or(policy);
        let component = layout
            .component
            .as_ref()
            .map_or_else(|| "embedded component".to_owned(), |(path, _)| shown(path));
        let component = name(is_part(|bundle| bundle.component.is_some())).unwrap_or(component);
        let keys = layout.key_files().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
        let keys = name(is_part(|bundle| bundle.keys.is_some())).unwrap_or(keys);
        let mut sources = Vec::new();
        if let Some(file) = &layout.file {
            sources.push(entry("gateway file", &shown(file), &state.gateway_file, None));
        }
        if let Some(bundle) = bundle {
            sources.push(entry("bundle", &bundle.name(), &state.bundle, None));
        }
        let in_use = |offered: &Option<String>, of: fn(&Revision) -> &str| {
            let offered = offered.as_deref()?;
            revisions.difference(&active, offered, of)
        };
        sources.push(entry(
            "policy",
            &policy,
            &state.policy,
            in_use(&state.policy.offered, |revision| &revision.origin.policy),
        ));
        sources.push(entry(
            "component",
            &component,
            &state.component,
            in_use(&state.component.offered, |revision| &revision.origin.component),
        ));
        let mut keys = entry("signing keys", &keys, &state.keys, None);
        if let Some(keys) = keys.as_object_mut() {
            keys.insert("droppedKeys".to_owned(), revisions.dropped_keys());
        }
        sources.push(keys);
        json!({ "sources": sources })
    }
}

/// Returns the report of one source. `difference` is the state of readable contents that are not
/// active, with the reason. `None` if the contents are active.
fn entry(
    name: &str,
    place: &str,
    source: &SourceState,
    difference: Option<(&'static str, String)>,
) -> Value {
    let (state, reason) = match (source.refusal(), difference) {
        (Some(reason), _) => ("refused", reason.clone()),
        (None, _) if source.is_pending => ("pending", "it is compiled and tested".to_owned()),
        (None, Some(difference)) => difference,
        (None, None) => ("in use", String::new()),
    };
    json!({"source": name, "place": place, "state": state, "reason": reason})
}
