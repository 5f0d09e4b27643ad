//! The links in the documents are those of the generator, and clients read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_install::{
    Client, Document, NamedCommand, claude_line, cursor_link, vs_code_link,
};
use context_guard_install::{ServerState, wrap};
use serde_json::{Value, json};

use crate::check::guard;

/// The page with the links, and the marks around them.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/configure-clients.md");
const START: &str = "<!-- links: start, written by `cargo xtask generate` -->\n";
const END: &str = "<!-- links: end -->\n";

/// The guarded servers with links: one of npm, one of PyPI, one of this project.
const SERVERS: [NamedCommand<'static>; 3] = [
    NamedCommand {
        name: "everything",
        program: "npx",
        arguments: &[
            "-y",
            "context-guard",
            "wrap",
            "--",
            "npx",
            "-y",
            "@modelcontextprotocol/server-everything",
        ],
    },
    NamedCommand {
        name: "fetch",
        program: "uvx",
        arguments: &["context-guard", "wrap", "--", "uvx", "mcp-server-fetch"],
    },
    NamedCommand {
        name: "bookings",
        program: "npx",
        arguments: &[
            "-y",
            "context-guard",
            "wrap",
            "--",
            "npx",
            "-y",
            "context-guard",
            "example-server",
        ],
    },
];

fn section() -> String {
    let mut text = String::from("| server | Cursor | VS Code |\n|---|---|---|\n");
    for server in &SERVERS {
        text += &format!(
            "| `{}` | [add to Cursor]({}) | [add to VS Code]({}) |\n",
            server.name,
            cursor_link(server),
            vs_code_link(server)
        );
    }
    text += "\nClaude Code:\n\n```sh\n";
    text.extend(SERVERS.iter().map(|server| format!("{}\n", claude_line(server))));
    text + "```\n"
}

#[test]
fn page_has_the_generated_links() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let (links, after) = rest.split_once(END).unwrap();
    if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
        std::fs::write(PAGE, [before, START, &section(), END, after].concat()).unwrap();
    } else {
        assert_eq!(links, section(), "run `cargo xtask generate`");
    }
}

#[test]
fn readme_has_a_generated_line() {
    let readme = include_str!("../../../../README.md");
    let lines = readme.lines().filter_map(|line| line.strip_prefix("`claude mcp add "));
    let lines: Vec<&str> = lines.filter_map(|line| line.split('`').next()).collect();
    let generated = claude_line(&SERVERS[1]);
    assert_eq!(lines, [generated.strip_prefix("claude mcp add ").unwrap()]);
}

/// Decodes %XX, as `decodeURIComponent` does.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A server whose words need every kind of escape.
const ODD: NamedCommand<'static> = NamedCommand {
    name: "a b&c",
    program: "/opt/my server/run",
    arguments: &["--x=1", "it's", "?&#%+/=", "ü✓", ""],
};

#[test]
fn links_decode_to_the_server() {
    for server in SERVERS.iter().chain([&ODD]) {
        let expected = json!({"command": server.program, "args": server.arguments});
        let link = cursor_link(server);
        let (_, query) = link.split_once('?').unwrap();
        let (name, config) = query.split_once("&config=").unwrap();
        assert_eq!(decode(name.strip_prefix("name=").unwrap()), server.name);
        let config = STANDARD.decode(decode(config)).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&config).unwrap(), expected);
        let link = vs_code_link(server);
        let mut config: Value =
            serde_json::from_str(&decode(link.strip_prefix("vscode:mcp/install?").unwrap()))
                .unwrap();
        assert_eq!(config.as_object_mut().unwrap().remove("name").unwrap(), server.name);
        assert_eq!(config, expected);
    }
}

#[cfg(unix)]
#[test]
fn shell_reads_the_line_of_claude() {
    let line = claude_line(&ODD).replace("claude mcp add", "printf '%s\\n'");
    let output = std::process::Command::new("sh").arg("-c").arg(line).output().unwrap();
    let words = [&[ODD.name, "--", ODD.program], ODD.arguments].concat();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), words.join("\n") + "\n");
}

#[test]
fn linked_servers_are_guarded() {
    for server in &SERVERS {
        let config = json!({"command": server.program, "args": server.arguments});
        let file = json!({"mcpServers": {server.name: config}}).to_string();
        let document = Document::parse(Client::Cursor, file.as_bytes()).unwrap();
        let servers = document.servers();
        assert!(matches!(servers[0].state, ServerState::Guarded(..)), "{}", server.name);
        assert_eq!(wrap(&document, &guard(), &|_| true).unwrap().changes, []);
    }
}
