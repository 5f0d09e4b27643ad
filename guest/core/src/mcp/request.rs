//! Parses the members of a client's request that the guard needs.

use crate::json::Span;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::Form;

/// The parts of a client's request that the guard reads or removes.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The span of the JSON-RPC id. `None` in a notification.
    pub id: Option<Span>,
    /// The JSON-RPC method; empty if the message is not a request.
    pub method: String,
    /// `params.name` of a tool call, `params.uri` of a resource, `params.taskId` of a task. `None`
    /// if absent.
    pub name: Option<String>,
    /// The span of the string in [`Self::name`], without its quotes.
    pub name_span: Option<Span>,
    /// The span of `params.arguments`, if present.
    pub arguments: Option<Span>,
    /// True if `params.cursor` is present: the request is for a later page of an MCP list.
    pub continues: bool,
    /// True if `_meta` names a protocol version, so that the request uses the stateless protocol
    /// mode.
    pub stateless: bool,
    /// The content of `params._meta`, if present.
    pub meta: Option<Meta>,
}

/// The content of `params._meta`, with the guard's members separated from the others.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The span of the `_meta` object.
    pub span: Span,
    /// The members that are not for the guard, verbatim and joined by commas.
    pub rest: Vec<u8>,
    /// The token budget that the caller requests in the member `dev.context-guard/budget`. `None`
    /// if it is absent or not a whole number.
    pub budget: Option<u64>,
    /// True if the object has members for the guard.
    pub has_guard_members: bool,
}

impl Request {
    /// Parses a client's message. `method` is empty if the message is not a request.
    ///
    /// # Errors
    /// Returns an error if the message is not JSON.
    pub fn read(message: &[u8]) -> Scan<Self> {
        let mut request = Self::default();
        let mut scanner = Scanner::new(message, Form::Raw);
        if scanner.kind()? != Kind::Object {
            scanner.skip_value()?;
            scanner.end()?;
            return Ok(request);
        }
        scanner.object(|scanner, key| {
            let kind = scanner.kind()?;
            if scanner.is_key(&key, "id") {
                request.id = Some(scanner.skip_value()?);
            } else if scanner.is_key(&key, "method") && kind == Kind::String {
                let method = scanner.string()?;
                request.method = scanner.decode(&method);
            } else if scanner.is_key(&key, "params") && kind == Kind::Object {
                request.params(scanner)?;
            } else {
                scanner.skip_value()?;
            }
            Ok(())
        })?;
        scanner.end()?;
        Ok(request)
    }

    fn params(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        scanner.object(|scanner, key| {
            let kind = scanner.kind()?;
            if kind == Kind::String
                && (scanner.is_key(&key, "name")
                    || scanner.is_key(&key, "uri")
                    || scanner.is_key(&key, "taskId"))
            {
                let name = scanner.string()?;
                self.name = Some(scanner.decode(&name));
                self.name_span = Some(name);
            } else if kind == Kind::Object && scanner.is_key(&key, "arguments") {
                self.arguments = Some(scanner.skip_value()?);
            } else if kind == Kind::Object && scanner.is_key(&key, "_meta") {
                self.meta(scanner)?;
            } else {
                self.continues |= scanner.is_key(&key, "cursor");
                scanner.skip_value()?;
            }
            Ok(())
        })
    }

    fn meta(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        scanner.skip_whitespace();
        let start = scanner.position();
        let (mut rest, mut budget, mut has_guard_members) = (Vec::new(), None, false);
        scanner.object(|scanner, key| {
            let value = scanner.skip_value()?;
            let name = scanner.decode(&key);
            if let Some(name) = name.strip_prefix(super::META_PREFIX) {
                has_guard_members = true;
                if name == "budget" {
                    budget = serde_json::from_slice(scanner.bytes(&value)).ok();
                }
            } else {
                self.stateless |= name == "io.modelcontextprotocol/protocolVersion";
                rest.push(scanner.bytes(&(key.start - 1..value.end)));
            }
            Ok(())
        })?;
        self.meta = Some(Meta {
            span: start..scanner.position(),
            rest: rest.join(&b','),
            budget,
            has_guard_members,
        });
        Ok(())
    }
}
