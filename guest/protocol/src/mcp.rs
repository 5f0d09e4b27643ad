//! MCP over Streamable HTTP: the requests of a POST, and their answers in its response, as JSON or as events. Both eras, and the batches of one of them.

use std::borrow::Cow;

use crate::exchange::Onward;
use crate::message::{Body, Head, failure, joined};
use crate::{Caller, Filter, Ticket, Verdict, events};

/// An exchange whose answers are looked at.
#[derive(Debug, Default)]
pub(crate) struct Mcp {
    caller: Caller,
    waiting: Vec<Waiting>,
    /// What the guard has answered itself, of a batch.
    own: Vec<Vec<u8>>,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    /// As it is spelt.
    id: String,
    tool: bool,
    ticket: Ticket,
}

impl Mcp {
    pub(crate) fn new(caller: Caller) -> Self {
        Self { caller, ..Self::default() }
    }

    /// The requests of a body, each through the guard.
    pub(crate) fn request(&mut self, filter: &mut dyn Filter, body: &[u8]) -> Onward {
        let requests = Body::read(body);
        let (mut onward, mut changed, mut subject) = (Vec::new(), false, None);
        for message in requests.messages() {
            match filter.request(&self.caller, message) {
                Verdict::Answer(answer) => self.own.push(answer),
                Verdict::Forward(other, ticket) => {
                    if ticket != Ticket::Pass
                        && let Some(head) = Head::read(message)
                    {
                        let (id, tool) = (head.id().to_owned(), head.is_tool_call());
                        self.waiting.push(Waiting { id, tool, ticket });
                    }
                    changed |= other.is_some();
                    if let Some(other) = &other {
                        subject = Head::read(other).and_then(|head| head.subject());
                    }
                    onward.push(other.map_or(Cow::Borrowed(*message), Cow::Owned));
                }
            }
        }
        match requests {
            Body::One(_) => match self.own.pop() {
                Some(answer) => Onward::Answer(crate::Reply::json(200, answer)),
                None => Onward::Forward {
                    body: onward.pop().filter(|_| changed).map(Cow::into_owned),
                    target: None,
                    subject,
                },
            },
            Body::Batch(_) if onward.is_empty() && !self.own.is_empty() => {
                let answers = joined(&std::mem::take(&mut self.own));
                Onward::Answer(crate::Reply::json(200, answers))
            }
            Body::Batch(_) => {
                let fewer = changed || !self.own.is_empty();
                Onward::Forward {
                    body: fewer.then(|| joined(&onward)),
                    target: None,
                    subject: None,
                }
            }
        }
    }

    /// Whether nothing of the response is of interest.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.own.is_empty()
    }

    /// The answers of a whole body; none to send it as it came.
    pub(crate) fn answer(&mut self, filter: &mut dyn Filter, body: &[u8]) -> Option<Vec<u8>> {
        let answers = Body::read(body);
        let own = std::mem::take(&mut self.own);
        if let (Body::One(message), true) = (&answers, own.is_empty()) {
            return self.one(filter, message);
        }
        let mut changed = !own.is_empty();
        let mut all: Vec<Cow<'_, [u8]>> = own.into_iter().map(Cow::Owned).collect();
        for message in answers.messages() {
            let shaped = self.one(filter, message);
            changed |= shaped.is_some();
            all.push(shaped.map_or(Cow::Borrowed(*message), Cow::Owned));
        }
        changed.then(|| joined(&all))
    }

    /// A message of the upstream; none to send it as it came.
    fn one(&mut self, filter: &mut dyn Filter, message: &[u8]) -> Option<Vec<u8>> {
        let head = Head::read(message).filter(Head::is_answer)?;
        let at = self.waiting.iter().position(|waiting| waiting.id == head.id())?;
        let waiting = self.waiting.swap_remove(at);
        filter.response(&self.caller, &waiting.ticket, message)
    }

    /// What comes before the first event of the upstream: the guard's own answers.
    pub(crate) fn first_events(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.own).iter().flat_map(|answer| events::message(answer)).collect()
    }

    /// A whole event, as it is sent.
    pub(crate) fn event(&mut self, filter: &mut dyn Filter, event: Vec<u8>) -> Vec<u8> {
        let shaped = {
            let data = events::data(&event);
            if data.is_empty() || self.waiting.is_empty() { None } else { self.one(filter, &data) }
        };
        match shaped {
            Some(message) => events::with_data(&event, &message),
            None => event,
        }
    }

    /// What every request that still waits is told.
    pub(crate) fn fail(&mut self, reason: &str) -> Vec<Vec<u8>> {
        let waiting = std::mem::take(&mut self.waiting);
        let failed = waiting.iter().map(|waiting| failure(&waiting.id, waiting.tool, reason));
        std::mem::take(&mut self.own).into_iter().chain(failed).collect()
    }
}
