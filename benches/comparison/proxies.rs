//! The proxies, each configured as its documentation recommends.

use std::net::TcpListener;
use std::path::Path;

use anyhow::Result;
use context_guard_test_support::artifacts;
use serde_json::{Value, json};

/// A proxy before the server, and the form of a tool call through it.
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    /// The command line.
    pub(crate) command: Vec<String>,
    /// True if the proxy has one tool that calls the tools of the server.
    pub(crate) wrapped: bool,
    /// The URL, if the proxy listens on one.
    pub(crate) url: Option<String>,
}

impl Proxy {
    /// Returns the call in the form that the proxy expects.
    pub(crate) fn call(&self, call: &Value) -> Value {
        if self.wrapped {
            return json!({"name": "server_invoke_tool", "arguments": {"tool_name": call["name"], "tool_input": call["arguments"]}});
        }
        call.clone()
    }
}

/// Returns a call that reads a file.
pub(crate) fn reading(file: &Path) -> Value {
    json!({"name": "read_text_file", "arguments": {"path": file}})
}

/// Returns the path of a file that was installed for this bench.
fn installed(path: &str) -> Result<String> {
    Ok(artifacts::bench_peers()?.join(path).display().to_string())
}

/// Returns the command of the server: the npm package that reads files.
pub(crate) fn server(folder: &Path) -> Result<Vec<String>> {
    let script = installed("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")?;
    Ok(vec!["node".to_owned(), script, folder.display().to_string()])
}

fn fastmcp() -> Result<Vec<String>> {
    let script = artifacts::root().join("benches/comparison/fastmcp_proxy.py");
    Ok(vec![installed("fastmcp/bin/python")?, script.display().to_string()])
}

/// Returns all proxies over standard input and output, after the server itself.
pub(crate) fn stdio(folder: &Path) -> Result<Vec<Proxy>> {
    let server = server(folder)?;
    let before = |name, command: &[String], wrapped| Proxy {
        name,
        command: [command, &["--".to_owned()], &server].concat(),
        wrapped,
        url: None,
    };
    let wrap = [artifacts::program()?.display().to_string(), "wrap".to_owned()];
    let compressor =
        [installed("mcp-compressor/bin/mcp-compressor")?, "--shrinkfit=32000".to_owned()];
    Ok(vec![
        Proxy { name: "directly", command: server.clone(), wrapped: false, url: None },
        before("context-guard wrap", &wrap, false),
        before("FastMCP 4.1.2, limiter of 32 kB", &fastmcp()?, false),
        before("mcp-compressor 0.38.2, shrinkfit of 32 kB", &compressor, true),
    ])
}

/// Returns the other proxies that serve Streamable HTTP before this command.
pub(crate) fn http(server: &[String]) -> Result<Vec<Proxy>> {
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

/// Returns those that also support an upstream over Streamable HTTP.
pub(crate) fn before_http(url: String) -> Result<Vec<Proxy>> {
    let open = [url, "--auth".to_owned(), "none".to_owned()];
    Ok(vec![listening_fastmcp(&open[..1])?, listening_compressor(&open)?])
}

fn listening_fastmcp(server: &[String]) -> Result<Proxy> {
    listening("FastMCP 4.1.2, limiter of 32 kB", &fastmcp()?, &["--http", "PORT"], server)
}

fn listening_compressor(server: &[String]) -> Result<Proxy> {
    let program = [installed("mcp-compressor/bin/mcp-compressor")?];
    let options = ["--shrinkfit=32000", "--transport", "streamable-http", "--port", "PORT"];
    let proxy = listening("mcp-compressor 0.38.2, shrinkfit of 32 kB", &program, &options, server)?;
    Ok(Proxy { wrapped: true, ..proxy })
}

fn listening(
    name: &'static str,
    program: &[String],
    options: &[&str],
    server: &[String],
) -> Result<Proxy> {
    let port = free_port()?.to_string();
    let options = options.iter().map(|option| option.replace("PORT", &port));
    let command = program.iter().cloned().chain(options).chain(["--".to_owned()]);
    Ok(Proxy {
        name,
        command: command.chain(server.iter().cloned()).collect(),
        wrapped: false,
        url: Some(format!("http://127.0.0.1:{port}/mcp")),
    })
}

/// Returns a free_port port.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
