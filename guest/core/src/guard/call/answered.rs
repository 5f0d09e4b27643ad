//! Requests that the guard answers itself: with a part of a snapshot, or with the reason for an
//! error.

use super::Call;
use crate::guard::Plan;
use crate::mcp::read::{PartRead, ReadError};
use crate::mcp::serve_part::{ServedPart, serve_part};
use crate::policy::endpoint_name;
use crate::record::Record;
use crate::snapshot::CursorError;
use crate::tokens::OriginalCost;

/// The error message for a resource URI with a cursor that only the read tool can serve.
const TOOL_CURSOR_ERROR: &str = "this cursor is read on by the tool context_guard_read, not as a resource: give it as its `cursor`.";

/// The JSON-RPC error code for a cursor that cannot be served. It is outside the range that
/// JSON-RPC reserves.
const CURSOR_ERROR_CODE: i64 = 1_001;

impl Call<'_> {
    /// Returns a plan that answers the request with `read`: a part of a snapshot, or the reason why
    /// it cannot be read. `name` is the tool or resource URI that the client requested.
    pub(super) fn serve(&self, read: Result<PartRead, ReadError>, name: &str) -> Plan {
        let read = match read {
            Ok(read) => read,
            Err(ReadError::Load(keys)) => return Plan::Load(keys),
            // Without a store, every value is absent.
            Err(ReadError::Cursor(CursorError::Gone)) if self.cx.store_unavailable => {
                return self.refuse_cursor(name, CursorError::Unavailable);
            }
            Err(ReadError::Cursor(error)) => return self.refuse_cursor(name, error),
            Err(ReadError::Reference(reference, error)) => {
                return self.refuse_reference(name, &reference, error);
            }
            Err(ReadError::Replay(..)) => return self.refuse(name, TOOL_CURSOR_ERROR),
            Err(ReadError::InvalidRequest(reason)) => return self.refuse(name, &reason),
        };
        let resource = (self.request.method != "tools/call").then_some(name);
        let ServedPart { message, record } = serve_part(&self.envelope(), &read, resource);
        let ttl_ms = 2 * self.settings_for("").cursor_ttl_ms;
        Plan::Answer { message, entries: read.entries, extend: read.extend, ttl_ms, record }
    }

    /// Returns a plan that answers the request with the reason why its cursor cannot be served.
    /// `name` is the tool or resource URI that the client requested.
    pub(super) fn refuse_cursor(&self, name: &str, error: CursorError) -> Plan {
        let mut plan = self.refuse(name, &error.to_string());
        if let Plan::Answer { record, .. } = &mut plan {
            record.origin.cursor_error = Some(error.code());
        }
        plan
    }

    /// Returns a plan that answers the call with the reason why the cursor of `reference` cannot be
    /// served. `name` is the tool that the client called.
    fn refuse_reference(&self, name: &str, reference: &str, error: CursorError) -> Plan {
        let error = match error {
            CursorError::Gone if self.cx.store_unavailable => CursorError::Unavailable,
            error => error,
        };
        let mut plan = self.refuse(
            name,
            &format!("this call was not sent, because of its reference {reference}: {error}"),
        );
        if let Plan::Answer { record, .. } = &mut plan {
            record.origin.cursor_error = Some(error.code());
        }
        plan
    }

    /// Returns a plan that answers the request with the error `reason`. `name` is the tool or
    /// resource URI that the client requested.
    pub(super) fn refuse(&self, name: &str, reason: &str) -> Plan {
        // MCP: a failed tool call is a result that the model sees; anything else is a protocol
        // error.
        let message = if self.request.method == "tools/call" {
            self.envelope().tool_error(reason)
        } else {
            self.envelope().error(CURSOR_ERROR_CODE, reason)
        };
        let settings = self.settings_for(name);
        let tokens = settings.estimator.price(reason.as_bytes());
        let endpoint = endpoint_name(self.cx.upstream, name);
        let original = OriginalCost { tokens, ..OriginalCost::default() };
        let record = Record::error(&endpoint, original, message.len(), settings.threshold);
        Plan::Answer { message, entries: Vec::new(), extend: Vec::new(), ttl_ms: 0, record }
    }
}
