//! Calls that the guard repeats to serve a cursor of an answer that is not stored.

use super::{Call, hash};
use crate::encoding::Stored;
use crate::guard::ticket::{CalledTool, ParsedRequest, ReplayTicket, Ticket};
use crate::guard::{Fault, Plan};
use crate::json::text::quoted;
use crate::mcp::arguments::GuardArguments;
use crate::policy::endpoint_name;
use crate::snapshot::{Cursor, CursorError, Replay};

impl Call<'_> {
    /// Returns a plan that repeats the call `replay`, to serve a cursor of an answer that is not
    /// stored. If the host does not name the upstream, the tool has the name `upstream::tool`.
    /// `now` holds the guard's arguments of the current request.
    ///
    /// # Errors
    /// Returns [`Fault::NeedsJq`] if another build of the core must decide.
    pub(super) fn replay_call(
        &self,
        cursor: &Cursor,
        replay: Replay,
        now: GuardArguments,
        tool: CalledTool,
        structured: bool,
    ) -> Result<Plan, Fault> {
        let settings = self.guard.policy.settings_for(&replay.upstream, &replay.name);
        let Ok(first) = GuardArguments::parse_separated(&replay.guard_arguments, &settings) else {
            return Ok(self.refuse_cursor(&replay.name, CursorError::Invalid));
        };
        if let Err(error) = self.check_program(&first.query) {
            return self.refuse_arguments(&replay.name, error);
        }
        let own = replay.arguments.as_bytes();
        let name = if self.cx.upstream.is_empty() {
            endpoint_name(&replay.upstream, &replay.name)
        } else {
            replay.name.clone()
        };
        let call = [b"\"name\":".as_slice(), &quoted(&name), b",\"arguments\":", own].concat();
        let meta =
            self.request.meta.as_ref().map_or_else(Vec::new, |meta| {
                [b",\"_meta\":{".as_slice(), &meta.rest, b"}"].concat()
            });
        let message = [
            b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
            self.id,
            b",\"method\":\"tools/call\",\"params\":{",
            &call,
            &meta,
            b"}}",
        ]
        .concat();
        let ticket = Ticket::Replay(Box::new(ReplayTicket {
            id: self.id.to_vec(),
            stateless: self.envelope().stateless,
            structured,
            cursor: cursor.into(),
            arguments: hash(own),
            first: ParsedRequest { options: first.options, query: first.query },
            now: ParsedRequest { options: now.options, query: now.query },
            budget: self.budget(),
            output: tool.output,
            renamed: tool.renamed,
            replay,
        }));
        let (message, ticket) = (Some(message), ticket.to_bytes());
        Ok(Plan::Forward { message, ticket, references: Vec::new() })
    }
}
