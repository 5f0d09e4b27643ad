//! Property: undo(install(x)) = x for generated files.

use context_guard_install::{Client, Document, Endpoint, replace_servers, undo, wrap};
use proptest::prelude::*;

use crate::check::{commands, guard};

/// White space and comments of JSON.
fn blank() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => Just(String::new()),
        4 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just("/* \"command\": \"x\", ] } */".to_owned()),
        1 => Just("// ], \"args\": [\n".to_owned()),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// Literals of strings in JSON, with escapes.
fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9@/._-]{0,12}".prop_map(|text| format!("\"{text}\"")),
        Just(r#""\"\\\u00e9 \/\n{[,\"""#.to_owned()),
        Just("\"--\"".to_owned()),
        Just("\"ünïcode ✓\"".to_owned()),
    ]
}

fn list() -> impl Strategy<Value = String> {
    (prop::collection::vec((blank(), literal(), blank()), 0..4), any::<bool>(), blank()).prop_map(
        |(items, has_trailing, end)| {
            let mut text = String::from("[");
            for (at, (before, item, after)) in items.iter().enumerate() {
                let is_last = at + 1 == items.len();
                let comma = if !is_last || has_trailing { "," } else { "" };
                text.push_str(&format!("{before}{item}{after}{comma}"));
            }
            text + &end + "]"
        },
    )
}

fn member(
    name: &'static str,
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    (blank(), blank(), blank(), value, blank())
        .prop_map(move |(a, b, c, value, d)| format!("{a}\"{name}\"{b}:{c}{value}{d}"))
}

fn program() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => Just("\"npx\"".to_owned()),
        1 => Just("\"/opt/my server/run\"".to_owned()),
        1 => Just("\"\\u006epx\"".to_owned()),
    ]
}

fn server() -> impl Strategy<Value = String> {
    let parts = (
        member("command", program()),
        prop::option::of(member("args", list())),
        prop::option::of(member("env", Just("{\"args\": [1], \"command\": null}".to_owned()))),
        prop::option::of(member("disabled", Just("true".to_owned()))),
    );
    (parts, any::<u8>(), any::<bool>()).prop_map(
        |((command, args, env, disabled), order, comma)| {
            let mut members: Vec<String> =
                [Some(command), args, env, disabled].into_iter().flatten().collect();
            let length = members.len();
            members.rotate_left(order as usize % length);
            format!("{{{}{}}}", members.join(","), if comma { "," } else { "" })
        },
    )
}

/// Servers in the form of earlier versions of Zed, whose command is an object.
fn nested_server() -> impl Strategy<Value = String> {
    let parts =
        (member("path", program()), prop::option::of(member("args", list())), any::<bool>());
    let command = parts.prop_map(|(path, args, is_first)| {
        let (path, args) = (Some(path), args);
        let members = if is_first { [path, args] } else { [args, path] };
        format!("{{{}}}", members.into_iter().flatten().collect::<Vec<_>>().join(","))
    });
    (member("command", command), prop::option::of(member("settings", Just("{}".to_owned()))))
        .prop_map(|(command, settings)| {
            let members = [settings, Some(command)].into_iter().flatten().collect::<Vec<_>>();
            format!("{{{}}}", members.join(","))
        })
}

/// Objects of servers, by name.
fn container(server: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let servers = prop::collection::vec((blank(), server, blank()), 0..5);
    (servers, any::<bool>()).prop_map(|(servers, comma)| {
        let members: Vec<String> = servers
            .iter()
            .enumerate()
            .map(|(at, (a, server, b))| format!("{a}\"s{at}\":{server}{b}"))
            .collect();
        let comma = if comma && !members.is_empty() { "," } else { "" };
        format!("{{{}{comma}}}", members.join(","))
    })
}

/// Files with a container of servers at each path.
fn json_file(
    paths: &'static [&'static [&'static str]],
    server: BoxedStrategy<String>,
) -> impl Strategy<Value = String> {
    let containers = prop::collection::vec(container(server), paths.len());
    (containers, blank(), any::<bool>()).prop_map(|(containers, space, mark)| {
        let members = paths.iter().zip(containers).map(|(path, container)| {
            let member = |value: String, name: &&str| format!("{space}\"{name}\":{space}{value}");
            let (last, folders) = path.split_last().unwrap();
            let inner = member(container, last);
            folders.iter().rev().fold(inner, |inner, name| member(format!("{{{inner}}}"), name))
        });
        let members = members.collect::<Vec<_>>().join(",");
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{space}{{\"theme\":1,{members}}}{space}")
    })
}

/// Cursor, Claude Desktop, Gemini CLI and Windsurf.
fn common_file() -> impl Strategy<Value = String> {
    json_file(&[&["mcpServers"]], server().boxed())
}

fn claude_code_file() -> impl Strategy<Value = String> {
    let paths: &[&[&str]] = &[&["mcpServers"], &["projects", "/home/ada", "mcpServers"]];
    json_file(paths, server().boxed())
}

fn vscode_file() -> impl Strategy<Value = String> {
    json_file(&[&["servers"], &["mcp", "servers"]], server().boxed())
}

fn zed_file() -> impl Strategy<Value = String> {
    let server = prop_oneof![server(), nested_server()];
    json_file(&[&["context_servers"]], server.boxed())
}

fn toml_list() -> impl Strategy<Value = String> {
    let blank = prop_oneof![
        4 => Just(""), 3 => Just(" "), 2 => Just("\n  "), 1 => Just(" # a \"b\", ]\n")
    ];
    let item = prop_oneof![
        "\"[a-z@/._-]{1,9}\"",
        "'[a-z\\\\ \"]{1,9}'",
        Just("\"\\u00e9\\\"\"".to_owned()),
        Just("'''\nmulti'line'''".to_owned()),
    ];
    (prop::collection::vec((blank.clone(), item, blank.clone()), 0..4), any::<bool>(), blank)
        .prop_map(|(items, has_trailing, end)| {
            let mut text = String::from("[");
            for (at, (before, item, after)) in items.iter().enumerate() {
                let comma = if at + 1 < items.len() || has_trailing { "," } else { "" };
                text.push_str(&format!("{before}{item}{after}{comma}"));
            }
            text + end + "]"
        })
}

fn toml_file() -> impl Strategy<Value = String> {
    let server = (0..4_usize, prop::option::of(toml_list()), any::<bool>(), any::<bool>());
    (prop::collection::vec(server, 0..5), any::<bool>(), any::<bool>()).prop_map(
        |(servers, has_returns, has_end)| {
            let mut inline = String::from("model = \"m\" # top\n\n[mcp_servers]\n");
            let mut tables = String::new();
            for (at, (form, args, has_comment, is_first)) in servers.into_iter().enumerate() {
                let comment = if has_comment { "  # args = [\"no\"]" } else { "" };
                let args = args.map(|args| format!("args = {args}"));
                match form {
                    0 => {
                        let args = args.map_or(String::new(), |args| format!(", {args}"));
                        inline += &format!("s{at} = {{ command = 'npx'{args} }}{comment}\n");
                    }
                    1 => {
                        let args = args.map_or(String::new(), |args| format!("s{at}.{args}\n"));
                        inline += &format!("s{at}.command = \"npx\"{comment}\n{args}");
                    }
                    _ => {
                        let indent = if form == 2 { "" } else { "  " };
                        let args = args.map_or(String::new(), |args| format!("{indent}{args}\n"));
                        let command = format!("{indent}command=\"npx\"{comment}\n");
                        let (a, b) = if is_first { (args, command) } else { (command, args) };
                        tables += &format!("\n# s{at}\n[mcp_servers.s{at}]\n{a}{b}[mcp_servers.s{at}.env]\nargs = \"no\"\n");
                    }
                }
            }
            let mut text = inline + &tables;
            if !has_end {
                text.truncate(text.trim_end().len());
            }
            if has_returns { text.replace('\n', "\r\n") } else { text }
        },
    )
}

fn check(client: Client, text: &str) -> Result<(), TestCaseError> {
    let document = Document::parse(client, text.as_bytes())
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let plan = wrap(&document, &guard(), &|_| true)
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let before = commands(client, text.as_bytes());
    prop_assert_eq!(plan.changes.len(), before.len());
    for (path, line) in commands(client, &plan.bytes) {
        prop_assert_eq!(&line[..3], ["/opt/context-guard", "wrap", "--"]);
        prop_assert_eq!(&line[3..], &before[&path][..]);
    }
    let step = crate::step(client, text.as_bytes(), &plan);
    let exact = undo(client, &plan.bytes, std::slice::from_ref(&step), None).unwrap();
    prop_assert_eq!(String::from_utf8(exact.bytes).unwrap(), text);
    let step = crate::without_backup(step);
    let literal = undo(client, &plan.bytes, &[step], None).unwrap();
    prop_assert_eq!(String::from_utf8(literal.bytes).unwrap(), text);
    let names: Vec<String> = plan.changes.iter().map(|change| change.name.clone()).collect();
    let named = undo(client, &plan.bytes, &[], Some(&names)).unwrap();
    prop_assert_eq!(commands(client, &named.bytes), before);
    Ok(())
}

/// Replaces the servers of a file with an endpoint, and restores them in three states of the file:
/// unchanged, without the backup, and with a table that another program has added.
fn check_endpoint(client: Client, text: &str) -> Result<(), TestCaseError> {
    let document = Document::parse(client, text.as_bytes())
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let endpoint = Endpoint::Url("http://127.0.0.1:8808/mcp".to_owned());
    // Servers with dotted keys cannot be removed.
    let Ok(plan) = replace_servers(&document, &endpoint, &|_| true) else { return Ok(()) };
    let step = crate::step(client, text.as_bytes(), &plan);
    let exact = undo(client, &plan.bytes, std::slice::from_ref(&step), None).unwrap();
    prop_assert_eq!(String::from_utf8(exact.bytes).unwrap(), text);
    let mut edited = String::from_utf8(plan.bytes.clone()).unwrap();
    if client == Client::Codex {
        edited += "\n[projects.\"/home/ada\"]\ntrust_level = \"trusted\"\n";
    }
    let step = [crate::without_backup(step)];
    for bytes in [plan.bytes, edited.into_bytes()] {
        let undone = undo(client, &bytes, &step, None).unwrap();
        prop_assert_eq!(commands(client, &undone.bytes), commands(client, text.as_bytes()));
        prop_assert_eq!(undone.left, []);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn undo_inverts_install_of_json(text in common_file()) {
        check(Client::Cursor, &text)?;
    }

    #[test]
    fn undo_inverts_install_of_projects(text in claude_code_file()) {
        check(Client::ClaudeCode, &text)?;
    }

    #[test]
    fn undo_inverts_install_of_two_containers(text in vscode_file()) {
        check(Client::VsCode, &text)?;
    }

    #[test]
    fn undo_inverts_install_of_nested_commands(text in zed_file()) {
        check(Client::Zed, &text)?;
    }

    #[test]
    fn undo_inverts_install_of_toml(text in toml_file()) {
        check(Client::Codex, &text)?;
    }

    #[test]
    fn undo_inverts_endpoints_of_json(text in common_file()) {
        check_endpoint(Client::Cursor, &text)?;
    }

    #[test]
    fn undo_inverts_endpoints_of_projects(text in claude_code_file()) {
        check_endpoint(Client::ClaudeCode, &text)?;
    }

    #[test]
    fn undo_inverts_endpoints_of_two_containers(text in vscode_file()) {
        check_endpoint(Client::VsCode, &text)?;
    }

    #[test]
    fn undo_inverts_endpoints_of_nested_commands(text in zed_file()) {
        check_endpoint(Client::Zed, &text)?;
    }

    #[test]
    fn undo_inverts_endpoints_of_toml(text in toml_file()) {
        check_endpoint(Client::Codex, &text)?;
    }
}
