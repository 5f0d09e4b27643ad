//! Puts a gateway in place of the servers, and takes it back.

use context_guard_install::{
    Client, Document, Endpoint, Server, ServerState, replace_servers, undo,
};

use crate::check::{Sample, accept, commands, rewrite, samples};

fn stdio() -> Endpoint {
    let arguments = ["stdio", "--config", "/home/ada/gateway.yaml"].map(str::to_owned).to_vec();
    let environment = vec![("KEY".to_owned(), "a \"b\"".to_owned())];
    Endpoint::Command { program: "/opt/context-guard".to_owned(), arguments, environment }
}

fn is_usable(server: &Server<'_>) -> bool {
    matches!(server.state, ServerState::Stdio(_) | ServerState::Guarded(_) | ServerState::Remote)
}

/// Returns the samples whose servers can be replaced, with the plan.
fn plans(endpoint: &Endpoint) -> Vec<(Sample, context_guard_install::Plan)> {
    let plan = |sample: Sample| {
        let document = Document::parse(sample.client, &sample.bytes).unwrap();
        match replace_servers(&document, endpoint, &is_usable) {
            Ok(plan) => Some((sample, plan)),
            Err(error) => {
                let dotted = ["codex/inline.toml", "codex/dotted.toml"];
                let is_expected = sample.client == Client::ClaudeDesktop
                    || dotted.contains(&sample.name.as_str());
                assert!(is_expected, "{}: {error}", sample.name);
                None
            }
        }
    };
    samples().into_iter().filter_map(plan).collect()
}

#[test]
fn endpoint_replaces_the_servers() {
    for (sample, plan) in plans(&stdio()) {
        let document = Document::parse(sample.client, &sample.bytes).unwrap();
        let usable = document.servers().iter().filter(|server| is_usable(server)).count();
        accept(&sample, &plan.bytes);
        let after = Document::parse(sample.client, &plan.bytes).unwrap();
        assert!(!after.servers().iter().any(is_usable), "{}", sample.name);
        if usable > 0 {
            let gateways: Vec<_> = commands(sample.client, &plan.bytes)
                .into_values()
                .filter(|line| line.contains(&"stdio".to_owned()))
                .collect();
            assert!(!gateways.is_empty(), "{}", sample.name);
        }
    }
}

#[test]
fn undo_brings_the_servers_back() {
    for (sample, plan) in plans(&stdio()) {
        let step = crate::step(sample.client, &sample.bytes, &plan);
        let undone = undo(sample.client, &plan.bytes, std::slice::from_ref(&step), None).unwrap();
        assert_eq!(undone.bytes, sample.bytes, "{}", sample.name);
        let steps = [crate::without_backup(step)];
        let files = [Some(plan.bytes.clone()), rewrite(&sample, &plan.bytes)];
        for file in files.into_iter().flatten() {
            let undone = undo(sample.client, &file, &steps, None).unwrap();
            let after = commands(sample.client, &undone.bytes);
            assert_eq!(after, commands(sample.client, &sample.bytes), "{}", sample.name);
            assert_eq!(undone.left, [], "{}", sample.name);
        }
    }
}

#[test]
fn each_client_gets_its_form_of_url() {
    let url = Endpoint::Url("http://127.0.0.1:8808/mcp".to_owned());
    let form = |client: Client, text: &str| {
        let document = Document::parse(client, text.as_bytes()).unwrap();
        let plan = replace_servers(&document, &url, &is_usable).unwrap();
        String::from_utf8(plan.bytes).unwrap()
    };
    let json =
        |name: &str| format!("{{\n  \"{name}\": {{\n    \"a\": {{\"command\": \"x\"}}\n  }}\n}}");
    assert!(
        form(Client::ClaudeCode, &json("mcpServers"))
            .contains(r#""context-guard": {"type": "http", "url": "http://127.0.0.1:8808/mcp"}"#)
    );
    assert!(form(Client::GeminiCli, &json("mcpServers")).contains(r#"{"httpUrl": "http"#));
    assert!(form(Client::Windsurf, &json("mcpServers")).contains(r#"{"serverUrl": "http"#));
    assert!(form(Client::Zed, &json("context_servers")).contains(r#"{"url": "http"#));
    let codex = "# mine\nmodel = \"o\"\n\n[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nK = \"v\"\n\n# rest\n[tui]\n";
    assert_eq!(
        form(Client::Codex, codex),
        "# mine\nmodel = \"o\"\n\n# rest\n[tui]\n\n[mcp_servers.context-guard]\nurl = \"http://127.0.0.1:8808/mcp\"\n"
    );
    let document = Document::parse(Client::ClaudeDesktop, json("mcpServers").as_bytes()).unwrap();
    let error = replace_servers(&document, &url, &is_usable).unwrap_err().to_string();
    assert!(error.contains("reads no URLs"), "{error}");
}

#[test]
fn commas_and_lines_of_the_rest_are_kept() {
    let text = "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"},\n  // kept\n  \"odd\": {\"type\": \"sdk\"},\n  \"b\": {\"url\": \"http://b\"}\n}}";
    let document = Document::parse(Client::Cursor, text.as_bytes()).unwrap();
    let plan = replace_servers(&document, &stdio(), &is_usable).unwrap();
    assert_eq!(
        String::from_utf8(plan.bytes).unwrap(),
        "{\"mcpServers\": {\n  // kept\n  \"odd\": {\"type\": \"sdk\"},\n  \"context-guard\": {\"command\": \"/opt/context-guard\", \"args\": [\"stdio\", \"--config\", \"/home/ada/gateway.yaml\"], \"env\": {\"KEY\": \"a \\\"b\\\"\"}}\n}}"
    );
}

#[test]
fn second_replacement_changes_nothing() {
    for (sample, plan) in plans(&stdio()) {
        let document = Document::parse(sample.client, &plan.bytes).unwrap();
        let again = replace_servers(&document, &stdio(), &is_usable).unwrap();
        assert_eq!(again.bytes, plan.bytes, "{}", sample.name);
        assert_eq!(again.changes, [], "{}", sample.name);
    }
}

const INLINE: &str = "model = \"m\"\n\n[mcp_servers] # mine\nfiles = { command = \"npx\", args = [\"-y\", \"fs\"] }\ndb = { command = \"uvx\", env = { KEY = \"v\" } }\n";

/// Returns the inline servers of Codex after an endpoint, a change by `edit`, and an undo.
fn undone_inline(edit: impl Fn(String) -> String) -> (String, Vec<(String, String)>) {
    let document = Document::parse(Client::Codex, INLINE.as_bytes()).unwrap();
    let plan = replace_servers(&document, &stdio(), &is_usable).unwrap();
    let steps = [crate::step(Client::Codex, INLINE.as_bytes(), &plan)];
    let edited = edit(String::from_utf8(plan.bytes).unwrap());
    let undone = undo(Client::Codex, edited.as_bytes(), &steps, None).unwrap();
    (String::from_utf8(undone.bytes).unwrap(), undone.left)
}

#[test]
fn inline_tables_return_to_their_table() {
    let trust = "\n[projects.\"/home/ada\"]\ntrust_level = \"trusted\"\n";
    let (text, left) = undone_inline(|text| text + trust);
    assert_eq!(left, []);
    // The lines are below the header again, in reverse order. The rest is unchanged.
    let lines: Vec<&str> = INLINE.lines().collect();
    let expected = [lines[0], lines[1], lines[2], lines[4], lines[3], ""].join("\n");
    assert_eq!(text, expected + trust);
}

#[test]
fn inline_tables_return_without_a_header() {
    let (text, left) = undone_inline(|text| text.replace("[mcp_servers] # mine\n", ""));
    assert_eq!(left, []);
    let after = commands(Client::Codex, text.as_bytes());
    assert_eq!(after, commands(Client::Codex, INLINE.as_bytes()), "{text}");
}

#[test]
fn inline_tables_without_a_place_are_left() {
    let gone = "mcp_servers = 3\n";
    let (text, left) = undone_inline(|_| gone.to_owned());
    assert_eq!(text, gone);
    assert_eq!(left.len(), 2);
}

#[test]
fn endpoint_that_cannot_be_removed_is_an_error() {
    let document = Document::parse(Client::Codex, INLINE.as_bytes()).unwrap();
    let plan = replace_servers(&document, &stdio(), &is_usable).unwrap();
    let steps = [crate::step(Client::Codex, INLINE.as_bytes(), &plan)];
    let dotted = "mcp_servers.context-guard.url = \"http://127.0.0.1/mcp\"\n";
    let error = undo(Client::Codex, dotted.as_bytes(), &steps, None).unwrap_err().to_string();
    assert!(error.contains("remove it by hand"), "{error}");
}

#[test]
fn lists_of_gemini_refuse_an_endpoint() {
    let plan = |settings: &str| {
        let text = format!(
            "{{{settings}, \"mcpServers\": {{\"a\": {{\"command\": \"x\"}}, \"b\": {{\"command\": \"y\"}}}}}}"
        );
        let document = Document::parse(Client::GeminiCli, text.as_bytes()).unwrap();
        let disabled: Vec<bool> =
            document.servers().iter().map(|server| server.is_disabled).collect();
        let plan = replace_servers(&document, &stdio(), &is_usable);
        (disabled, plan.map(|plan| plan.changes.len()).map_err(|error| error.to_string()))
    };
    for (settings, name) in [
        (r#""mcp": {"allowed": ["a"]}"#, "`mcp.allowed`"),
        (r#""allowMCPServers": ["a"]"#, "`allowMCPServers`"),
        (r#""mcp": {"excluded": ["b", "context-guard"]}"#, "`mcp.excluded`"),
        (r#""excludeMCPServers": ["b", "context-guard"]"#, "`excludeMCPServers`"),
    ] {
        let (disabled, plan) = plan(settings);
        assert_eq!(disabled, [false, true], "{settings}");
        assert!(plan.unwrap_err().contains(name), "{settings}");
    }
    let (_, allowed) = plan(r#""mcp": {"allowed": ["a", "context-guard"]}"#);
    assert_eq!(allowed, Ok(3));
}
