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
    /// A call that reads a file.
    pub(crate) fn call(&self, file: &Path) -> Value {
        let arguments = json!({"path": file});
        if self.wrapped {
            return json!({"name": "server_invoke_tool", "arguments": {"tool_name": "read_text_file", "tool_input": arguments}});
        }
        json!({"name": "read_text_file", "arguments": arguments})
    }
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

/// All that make the server one of Streamable HTTP, but ours.
pub(crate) fn http(folder: &Path) -> Result<Vec<Front>> {
    let server = server(folder)?;
    let before = |name, command: Vec<String>, options: &[&str], port: u16, wrapped| Front {
        name,
        command: [
            command,
            options.iter().map(|option| (*option).replace("PORT", &port.to_string())).collect(),
            vec!["--".to_owned()],
            server.clone(),
        ]
        .concat(),
        wrapped,
        url: Some(format!("http://127.0.0.1:{port}/mcp")),
    };
    Ok(vec![
        before("FastMCP 4.1.2, limiter of 32 kB", fastmcp()?, &["--http", "PORT"], free()?, false),
        before(
            "mcp-compressor 0.38.2, shrinkfit of 32 kB",
            vec![installed("mcp-compressor/bin/mcp-compressor")?],
            &["--shrinkfit=32000", "--transport", "streamable-http", "--port", "PORT"],
            free()?,
            true,
        ),
        before(
            "mcp-proxy 0.13.0 (Python)",
            vec![installed("mcp-proxy/bin/mcp-proxy")?],
            &["--port", "PORT", "--pass-environment"],
            free()?,
            false,
        ),
        before(
            "mcp-proxy 6.7.19 (npm)",
            vec!["node".to_owned(), installed("node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs")?],
            &["--port", "PORT", "--host", "127.0.0.1", "--server", "stream"],
            free()?,
            false,
        ),
    ])
}

/// A port that nobody listens on.
fn free() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
