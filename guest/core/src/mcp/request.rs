//! Requests: which ones matter, and what the guard needs of them.

use crate::json::Span;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::Form;

/// A request, as far as the guard looks into it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The id as it is spelt.
    pub id: Option<Span>,
    /// The method.
    pub method: String,
    /// `params.name` of a tool call, `params.uri` of a resource.
    pub name: Option<String>,
    /// `params.arguments`.
    pub arguments: Option<Span>,
    /// `params.cursor`, MCP's own, of a list.
    pub continues: bool,
    /// Whether it says `2026-07-28` or later in its `_meta`: the stateless era.
    pub stateless: bool,
    /// Members of `params._meta` that are meant for the guard, with the whole `_meta`.
    pub meta: Option<Meta>,
}

/// `params._meta`, sorted.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The object.
    pub span: Span,
    /// The members that are not the guard's, joined.
    pub rest: Vec<u8>,
    /// `dev.context-guard/budget`: tokens that this answer may cost.
    pub budget: Option<u64>,
    /// Whether there were members of the guard.
    pub guarded: bool,
}

impl Request {
    /// Reads a request. Anything that is not one has no method.
    ///
    /// # Errors
    /// Where it is not JSON.
    pub fn read(message: &[u8]) -> Scan<Self> {
        let mut request = Self::default();
        let mut scanner = Scanner::new(message, Form::Raw);
        if scanner.kind()? != Kind::Object {
            scanner.skip()?;
            scanner.end()?;
            return Ok(request);
        }
        scanner.object(|scanner, key| {
            let kind = scanner.kind()?;
            if scanner.is(&key, "id") {
                request.id = Some(scanner.skip()?);
            } else if scanner.is(&key, "method") && kind == Kind::String {
                let method = scanner.string()?;
                request.method = scanner.decode(&method);
            } else if scanner.is(&key, "params") && kind == Kind::Object {
                request.params(scanner)?;
            } else {
                scanner.skip()?;
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
                && (scanner.is(&key, "name")
                    || scanner.is(&key, "uri")
                    || scanner.is(&key, "taskId"))
            {
                let name = scanner.string()?;
                self.name = Some(scanner.decode(&name));
            } else if kind == Kind::Object && scanner.is(&key, "arguments") {
                self.arguments = Some(scanner.skip()?);
            } else if kind == Kind::Object && scanner.is(&key, "_meta") {
                self.meta(scanner)?;
            } else {
                self.continues |= scanner.is(&key, "cursor");
                scanner.skip()?;
            }
            Ok(())
        })
    }

    fn meta(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        scanner.space();
        let start = scanner.position();
        let (mut rest, mut budget, mut guarded) = (Vec::new(), None, false);
        scanner.object(|scanner, key| {
            let value = scanner.skip()?;
            let name = scanner.decode(&key);
            if let Some(name) = name.strip_prefix(super::META_PREFIX) {
                guarded = true;
                if name == "budget" {
                    budget = serde_json::from_slice(scanner.bytes(&value)).ok();
                }
            } else {
                self.stateless |= name == "io.modelcontextprotocol/protocolVersion";
                rest.push(scanner.bytes(&(key.start - 1..value.end)));
            }
            Ok(())
        })?;
        self.meta =
            Some(Meta { span: start..scanner.position(), rest: rest.join(&b','), budget, guarded });
        Ok(())
    }
}
