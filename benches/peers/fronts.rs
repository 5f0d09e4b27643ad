//! The proxies, each as it is meant to be used.

use std::net::TcpListener;
use std::path::Path;

use anyhow::Result;
use context_guard_test_support::artifacts;
use serde_json::{Value, json};

/// What stands before the server, and how a tool is called through it.
pub(crate) struct Front {
    pub(crate) name: &'static str,
    /// The program, and its arguments.
    pub(crate) command: Vec<String>,
    /// Whether tools are called through one of its own.
    pub(crate) wrapped: bool,
    /// Where it listens, if it does.
    pub(crate) url: Option<String>,
}

impl Front {
    /// This call, as it is made through it.
    pub(crate) fn call(&self, call: &Value) -> Value {
        if self.wrapped {
            return json!({"name": "server_invoke_tool", "arguments": {"tool_name": call["name"], "tool_input": call["arguments"]}});
        }
        call.clone()
    }
}

/// A call that reads a file.
pub(crate) fn reading(file: &Path) -> Value {
    json!({"name": "read_text_file", "arguments": {"path": file}})
}

/// A file of what is installed for this bench.
fn installed(path: &str) -> Result<String> {
    Ok(artifacts::bench_peers()?.join(path).display().to_string())
}

/// The server: the npm package that reads files.
pub(crate) fn server(folder: &Path) -> Result<Vec<String>> {
    let script = installed("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")?;
    Ok(vec!["node".to_owned(), script, folder.display().to_string()])
}

fn fastmcp() -> Result<Vec<String>> {
    let script = artifacts::root().join("benches/peers/fastmcp_proxy.py");
    Ok(vec![installed("fastmcp/bin/python")?, script.display().to_string()])
}

/// All that speak over standard input and output; the server itself first.
pub(crate) fn stdio(folder: &Path) -> Result<Vec<Front>> {
    let server = server(folder)?;
    let before = |name, command: &[String], wrapped| Front {
        name,
        command: [command, &["--".to_owned()], &server].concat(),
        wrapped,
        url: None,
    };
    let wrap = [artifacts::program()?.display().to_string(), "wrap".to_owned()];
    let compressor =
        [installed("mcp-compressor/bin/mcp-compressor")?, "--shrinkfit=32000".to_owned()];
    Ok(vec![
        Front { name: "directly", command: server.clone(), wrapped: false, url: None },
        before("context-guard wrap", &wrap, false),
        before("FastMCP 4.1.2, limiter of 32 kB", &fastmcp()?, false),
        before("mcp-compressor 0.38.2, shrinkfit of 32 kB", &compressor, true),
    ])
}

/// All others that speak Streamable HTTP before this command.
pub(crate) fn http(server: &[String]) -> Result<Vec<Front>> {
    let python = [installed("mcp-proxy/bin/mcp-proxy")?];
    let npm = ["node".to_owned(), installed("node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs")?];
    let of_python = ["--port", "PORT", "--pass-environment"];
    let of_npm = ["--port", "PORT", "--host", "127.0.0.1", "--server", "stream"];
    Ok(vec![
        listening_fastmcp(server)?,
        listening_compressor(server)?,
        listening("mcp-proxy 0.13.0 (Python)", &python, &of_python, server)?,
        listening("mcp-proxy 6.7.19 (npm)", &npm, &of_npm, server)?,
    ])
}

/// Those of them that also stand before a server that speaks Streamable HTTP itself.
pub(crate) fn before_http(url: String) -> Result<Vec<Front>> {
    let open = [url, "--auth".to_owned(), "none".to_owned()];
    Ok(vec![listening_fastmcp(&open[..1])?, listening_compressor(&open)?])
}

fn listening_fastmcp(server: &[String]) -> Result<Front> {
    listening("FastMCP 4.1.2, limiter of 32 kB", &fastmcp()?, &["--http", "PORT"], server)
}

fn listening_compressor(server: &[String]) -> Result<Front> {
    let program = [installed("mcp-compressor/bin/mcp-compressor")?];
    let options = ["--shrinkfit=32000", "--transport", "streamable-http", "--port", "PORT"];
    let front = listening("mcp-compressor 0.38.2, shrinkfit of 32 kB", &program, &options, server)?;
    Ok(Front { wrapped: true, ..front })
}

fn listening(
    name: &'static str,
    program: &[String],
    options: &[&str],
    server: &[String],
) -> Result<Front> {
    let port = free()?.to_string();
    let options = options.iter().map(|option| option.replace("PORT", &port));
    let command = program.iter().cloned().chain(options).chain(["--".to_owned()]);
    Ok(Front {
        name,
        command: command.chain(server.iter().cloned()).collect(),
        wrapped: false,
        url: Some(format!("http://127.0.0.1:{port}/mcp")),
    })
}

/// A port that nobody listens on.
fn free() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
