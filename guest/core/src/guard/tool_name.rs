//! Replaces the client-visible name of a called tool by the upstream's own name.

use super::Plan;
use super::call::Call;
use crate::json::edit::Edits;
use crate::json::text::quoted;

impl Call<'_> {
    /// Replaces the name of the called tool in the request by `name`, unless it is the same.
    pub(super) fn write_name(&self, name: &str, edits: &mut Edits) {
        let differs = self.request.name.as_deref() != Some(name);
        if let Some(span) = self.request.name_span.clone().filter(|_| differs) {
            edits.replace(span.start - 1..span.end + 1, quoted(name));
        }
    }

    /// Returns a plan to forward the request with this name of the tool, and without other changes.
    /// The guard does not need the response.
    pub(super) fn pass_as(&self, name: &str) -> Plan {
        let mut edits = Edits::default();
        self.write_name(name, &mut edits);
        let message = (!edits.is_empty()).then(|| edits.apply(self.message));
        Plan::Forward { message, ticket: Vec::new(), references: Vec::new() }
    }
}
