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
