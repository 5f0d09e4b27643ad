//! The host of a program. It passes the program's calls to the task of its request, and reads the
//! stored answers of its principal.

use std::sync::Arc;
use std::time::Instant;

use serde::de::IgnoredAny;
use tokio::sync::mpsc::UnboundedSender;

use super::notes::{CallEnd, CallNotes, ProgramCall, ProgramRequest};
use super::results::ResultReceiver;
use crate::code::{ProgramHost, RowsPart, StoredAnswer};
use crate::engine::{CallContext, StoredRange};
use crate::filter::Filter;

/// The maximum number of answers that a program may open.
const MAX_OPENED: usize = 256;
/// The maximum size of an answer that a program may read as a whole, in bytes.
const MAX_WHOLE_BYTES: usize = 64 << 20;

/// The host of one program.
pub(super) struct ChannelHost {
    requests: UnboundedSender<ProgramRequest>,
    ended: ResultReceiver,
    filter: Arc<Filter>,
    context: CallContext,
    notes: Arc<CallNotes>,
    /// The cursors of the answers that the program has opened.
    opened: Vec<String>,
}

impl ChannelHost {
    pub(super) fn new(
        requests: UnboundedSender<ProgramRequest>,
        ended: ResultReceiver,
        filter: Arc<Filter>,
        context: CallContext,
        notes: Arc<CallNotes>,
    ) -> Self {
        Self { requests, ended, filter, context, notes, opened: Vec::new() }
    }

    /// Returns the cursor of the opened answer with the number `handle`.
    fn opened(&self, handle: u32) -> Result<&str, String> {
        let at = usize::try_from(handle).unwrap_or(usize::MAX);
        self.opened.get(at).map(String::as_str).ok_or_else(|| "this answer is not open".to_owned())
    }
}

/// Returns true if a text is a JSON object. The arguments of a call become a part of a request, so
/// that other text could add members to the request or more messages.
fn is_object(text: &str) -> bool {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    is_json && text.trim_start().starts_with('{')
}

impl ProgramHost for ChannelHost {
    fn start_call(&mut self, server: &str, tool: &str, arguments: &str) -> Result<u32, String> {
        if !is_object(arguments) {
            return Err("the arguments are not a JSON object".to_owned());
        }
        let job = self.notes.begin(server, tool)?;
        let call = ProgramCall {
            job,
            server: server.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
        };
        self.requests
            .send(ProgramRequest::Call(call))
            .map_err(|_| "the run has ended".to_owned())?;
        Ok(job)
    }

    fn wait(&mut self, _jobs: &[u32], deadline: Instant) -> Option<CallEnd> {
        // The program waits for all calls that it has started, so that any may end next.
        self.ended.recv(deadline.saturating_duration_since(Instant::now()))
    }

    fn names(&mut self, server: &str, deadline: Instant) -> Option<Result<Vec<String>, String>> {
        let (reply, names) = std::sync::mpsc::channel();
        self.requests.send(ProgramRequest::Names { server: server.to_owned(), reply }).ok()?;
        names.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    fn open(&mut self, cursor: &str) -> Result<StoredAnswer, String> {
        if self.opened.len() >= MAX_OPENED {
            return Err(format!("a program opens at most {MAX_OPENED} answers"));
        }
        // No row has this number, so that only the index is read.
        let none = StoredRange::Rows(u64::MAX);
        let part = self.filter.read_stored(&self.context, cursor, none)?;
        let handle = u32::try_from(self.opened.len()).unwrap_or(u32::MAX);
        let answer = StoredAnswer { handle, count: part.count, has_records: part.has_records };
        self.opened.push(cursor.to_owned());
        Ok(answer)
    }

    fn read_rows(&mut self, handle: u32, start: u64) -> Result<RowsPart, String> {
        let cursor = self.opened(handle)?;
        let part = self.filter.read_stored(&self.context, cursor, StoredRange::Rows(start))?;
        Ok(RowsPart { rows: part.data, next: part.next })
    }

    fn read_whole(&mut self, handle: u32) -> Result<Vec<u8>, String> {
        let cursor = self.opened(handle)?;
        let part = self.filter.read_stored(&self.context, cursor, StoredRange::Whole)?;
        if part.data.len() > MAX_WHOLE_BYTES {
            return Err("this answer is too large to be read whole: use rows()".to_owned());
        }
        Ok(part.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::results::result_channel;
    use crate::session::tests::filter;

    #[test]
    fn arguments_must_be_an_object() {
        let (requests, mut started) = tokio::sync::mpsc::unbounded_channel();
        let (_results, ended) = result_channel();
        let notes = CallNotes::new(10);
        let context = CallContext::default();
        let mut host = ChannelHost::new(requests, ended, filter(), context, Arc::clone(&notes));
        for refused in ["", "[]", "1", "null", "{", "{}}", r#"{}},"id":1,"x":{{}"#, "{} {}"] {
            assert!(host.start_call("s", "t", refused).is_err(), "{refused}");
        }
        assert!(started.try_recv().is_err() && notes.totals().0 == 0);
        assert_eq!(host.start_call("s", "t", r#" {"a": [1]} "#), Ok(1));
        assert!(matches!(started.try_recv(), Ok(ProgramRequest::Call(_))));
    }
}
