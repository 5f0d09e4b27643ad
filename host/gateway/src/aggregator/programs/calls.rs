//! Makes the calls of tools for a program.

use std::borrow::Cow;

use context_guard_protocol::glob;
use serde_json::{Value, json};

use super::RUN_TOOL;
use super::names::{hint, joined};
use super::notes::{CallEnd, CallNotes, ProgramCall};
use crate::aggregator::Aggregator;
use crate::aggregator::client::Origin;
use crate::aggregator::input_requests::InputRequest;
use crate::aggregator::list_kinds::TOOLS;
use crate::aggregator::lists::request_meta;
use crate::catalogue_tools::READ_TOOLS;
use crate::message::{Head, append_members, member};

/// The server name of the functions for the catalogue: `tools.$search` and `tools.$describe`.
const CATALOGUE: &str = "$";

/// A tool that a program may call: its server, its own name, and true if it may write.
struct Callable {
    server: usize,
    name: String,
    may_write: bool,
}

impl Aggregator {
    /// Makes a call of a program, and waits for its end. `origin` is the request that runs the
    /// program.
    pub(super) async fn program_call(
        &self,
        origin: &Origin<'_>,
        call: ProgramCall,
        notes: &CallNotes,
    ) -> CallEnd {
        let result = self.program_result(origin, &call, notes).await;
        let has_succeeded = result.as_ref().is_ok_and(|result| !is_tool_error(result));
        notes.change(call.job, |note| note.succeeded = Some(has_succeeded));
        (call.job, result)
    }

    async fn program_result(
        &self,
        origin: &Origin<'_>,
        call: &ProgramCall,
        notes: &CallNotes,
    ) -> Result<Vec<u8>, String> {
        origin.client.charge().await?;
        if call.server == CATALOGUE {
            let tool = format!("context_guard_{}_tools", call.tool);
            return self.own_result(origin, &tool, &call.arguments).await;
        }
        if call.server.is_empty() && READ_TOOLS.contains(&call.tool.as_str()) {
            return self.own_result(origin, &call.tool, &call.arguments).await;
        }
        if call.tool == RUN_TOOL {
            return Err("a program cannot run programs".to_owned());
        }
        let found = self.callable(origin, &call.server, &call.tool).await?;
        notes.change(call.job, |note| note.may_write = found.may_write);
        let request = tool_call(origin, call.job, &found.name, &call.arguments);
        let (answer, tokens) = self.forwarder.forward_whole(origin, found.server, request).await;
        notes.change(call.job, |note| note.tokens = tokens);
        if InputRequest::parse(&answer).is_some() {
            return Err("this tool asks for input: call it outside of a program".to_owned());
        }
        result_of(&answer)
    }

    /// Calls one of the guard's own tools, whose answers are within the budget.
    async fn own_result(
        &self,
        origin: &Origin<'_>,
        tool: &str,
        arguments: &str,
    ) -> Result<Vec<u8>, String> {
        let request = tool_call(origin, 0, tool, arguments);
        let Some(head) = Head::read(&request) else {
            return Err("the arguments are not JSON".to_owned());
        };
        let answer = Box::pin(self.call_named(origin, &head, &request)).await;
        result_of(&answer)
    }

    /// Resolves `server` and `tool` to a tool that programs may call.
    ///
    /// # Errors
    /// The reason, for the author of the program: the tool is unknown, hidden, or neither read-only
    /// nor listed in `code.tools`, or the list of tools cannot be read.
    async fn callable(
        &self,
        origin: &Origin<'_>,
        server: &str,
        tool: &str,
    ) -> Result<Callable, String> {
        let (server, name) = self.tool_of(origin, server, tool).await?;
        let (upstream, definition) = self.program_definition(origin, server, &name).await?;
        let client_name = self.router.client_names.to_client_name(server, &name);
        if self.is_hidden_tool(origin, &client_name)
            || self.withheld(origin, server).await.has(&client_name)
        {
            return Err(self.unknown_tool(origin, server, &upstream, &name).await);
        }
        if !self.may_call(&upstream, &name, &definition) {
            return Err(
                "programs may call tools with readOnlyHint only, and this tool may change something: call it outside of a program, or let the operator add it to code.tools".to_owned(),
            );
        }
        Ok(Callable { server, name, may_write: !is_read_only(&definition) })
    }

    /// Returns true if programs may call a tool, because it is read-only or the operator allows it.
    pub(super) fn may_call(&self, upstream: &str, name: &str, definition: &Value) -> bool {
        let endpoint = format!("{upstream}::{name}");
        let allowed = self.programs.settings.tools.globs();
        is_read_only(definition) || allowed.iter().any(|glob| glob::matches(glob, &endpoint))
    }

    /// Returns the error for a tool that an upstream does not have, or that is hidden.
    async fn unknown_tool(
        &self,
        origin: &Origin<'_>,
        server: usize,
        upstream: &str,
        name: &str,
    ) -> String {
        let names = self.callable_names(origin, server).await.unwrap_or_default();
        let names = || names.iter().map(String::as_str);
        let hint = hint(name, names());
        match joined(names()) {
            names if names.is_empty() => format!("{upstream} has no tool `{name}`"),
            names => {
                format!("{upstream} has no tool `{name}`{hint}; its tools for programs are {names}")
            }
        }
    }

    /// Returns the index of a server and the tool's own name. If `server` is empty, `tool` is the
    /// client-visible name.
    ///
    /// # Errors
    /// The reason, for the author of the program: the server or the tool is unknown.
    pub(super) async fn tool_of(
        &self,
        origin: &Origin<'_>,
        server: &str,
        tool: &str,
    ) -> Result<(usize, String), String> {
        let servers = self.servers();
        if !server.is_empty() {
            let found = servers.iter().position(|known| known.name == server);
            return found.map(|found| (found, tool.to_owned())).ok_or_else(|| {
                let names = || servers.iter().map(|known| known.name.as_str());
                let (hint, names) = (hint(server, names()), joined(names()));
                format!("there is no server `{server}`{hint}; the servers are {names}")
            });
        }
        match self.lists.find_named(origin, &TOOLS, tool).await {
            Some((server, name)) => Ok((server, Cow::into_owned(name))),
            None if servers.len() == 1 => Ok((0, tool.to_owned())),
            None => {
                let merged = self.lists.known_tools(origin).await;
                let mut names = Vec::new();
                for (server, (_, list)) in merged.each() {
                    let withheld = self.withheld(origin, server).await;
                    let all = list.entries.iter();
                    let all = all
                        .map(|entry| self.router.client_names.to_client_name(server, &entry.key));
                    names.extend(
                        all.filter(|name| {
                            !withheld.has(name) && !self.is_hidden_tool(origin, name)
                        }),
                    );
                }
                let hint = hint(tool, names.iter().map(|name| &**name));
                Err(format!("there is no tool `{tool}`{hint}: write tools.SERVER.TOOL"))
            }
        }
    }

    /// Returns the name of an upstream, and the definition of its tool.
    async fn program_definition(
        &self,
        origin: &Origin<'_>,
        server: usize,
        name: &str,
    ) -> Result<(String, Value), String> {
        let upstream = self.servers().get(server).map(|server| server.name.clone());
        let upstream = upstream.unwrap_or_default();
        let list = self.lists.tools_of(origin, server).await?;
        let entry = list.entries.iter().find(|entry| entry.key == name);
        match entry.and_then(|entry| serde_json::from_str(&entry.json).ok()) {
            Some(definition) => Ok((upstream, definition)),
            None => Err(self.unknown_tool(origin, server, &upstream, name).await),
        }
    }
}

/// Returns a `tools/call` request in the client's protocol mode. `job` is the number of the call.
fn tool_call(origin: &Origin<'_>, job: u32, name: &str, arguments: &str) -> Vec<u8> {
    let mut params = json!({"name": name}).to_string();
    params = append_members(&params, &format!(r#""arguments":{arguments}"#));
    if let Some(meta) = request_meta(origin.client) {
        params = append_members(&params, &format!(r#""_meta":{}"#, meta.get()));
    }
    format!(r#"{{"jsonrpc":"2.0","id":"program {job}","method":"tools/call","params":{params}}}"#)
        .into_bytes()
}

/// Returns true if the annotations of a tool declare that it changes nothing.
fn is_read_only(definition: &Value) -> bool {
    definition.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true))
}

/// Returns true if a result reports that the tool failed.
fn is_tool_error(result: &[u8]) -> bool {
    let result = std::str::from_utf8(result).unwrap_or_default();
    member(result, "isError").is_some_and(|value| value.get() == "true")
}

/// Returns the result in a response, or the reason why there is none.
fn result_of(answer: &[u8]) -> Result<Vec<u8>, String> {
    let head = Head::read(answer).ok_or_else(|| "the answer is not JSON".to_owned())?;
    if let Some(result) = head.result {
        return Ok(result.as_bytes().to_vec());
    }
    let error = head.error.and_then(|error| serde_json::from_str::<Value>(error.get()).ok());
    let message = error.as_ref().and_then(|error| error["message"].as_str());
    Err(message.unwrap_or("the server returned an error").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_servers_become_reasons() {
        let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#;
        assert_eq!(result_of(error), Err("no".to_owned()));
        assert_eq!(result_of(br#"{"id":1,"result":{"a":1}}"#), Ok(br#"{"a":1}"#.to_vec()));
    }
}
