//! Real servers behind the guard, called by real clients. Every call succeeds, structured content
//! matches its schema, every answer is within its budget, and the pages add up to the original.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::peers::{self, CLIENTS, Server, call};
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

/// Runs a plan behind the guard in every client, and checks what holds for every answer.
fn everywhere(
    server: &Server,
    steps: &[Value],
    check: impl Fn(&[Vec<Answer>]) -> Result<()>,
) -> Result<()> {
    for client in CLIENTS {
        let outcomes = peers::run(client, &server.wrapped()?, steps)?;
        let (list, answers) = outcomes.split_first().context("no list of tools")?;
        let names: Vec<Value> = list
            .iter()
            .flat_map(|list| list.result()["tools"].as_array().cloned().unwrap_or_default())
            .map(|tool| tool["name"].clone())
            .collect();
        ensure!(names.last() == Some(&json!("context_guard_read")), "{client}: {names:?}");
        for answer in answers.iter().flatten() {
            ensure!(!answer.is_error(), "{client}: {:?}", answer.all_texts());
            ensure!(
                answer.tokens() <= 4_000,
                "{client}: {} tokens, {:?}",
                answer.tokens(),
                answer.notice()
            );
        }
        check(answers).with_context(|| client.to_owned())?;
    }
    Ok(())
}

/// Concatenates the texts of all parts.
fn text(walk: &[Answer]) -> String {
    walk.iter().flat_map(Answer::texts).collect()
}

#[test]
fn filesystem_log_is_read_in_chunks() -> Result<()> {
    let folder = peers::folder("filesystem")?;
    let log: String = (0..44_000)
        .map(|at| {
            let trace = if at % 97 == 0 { "Traceback (most recent call last):\n  File \"a.py\", line 3, in run\nValueError: “no such room” \\ 404\n" } else { "" };
            format!("2026-03-{:02}T{:02}:{:02}:{:02}Z INFO  booking {at} synchronised with channel {}\n{trace}", at / 3_600 % 28 + 1, at / 60 % 24, at % 60, at * 7 % 60, at % 9)
        })
        .collect();
    ensure!(log.len() > 3_000_000, "{}", log.len());
    std::fs::write(folder.join("server.log"), &log)?;
    for at in 0..80 {
        std::fs::write(folder.join(format!("note-{at:03}.txt")), "A short note.\n")?;
    }
    let server = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
    let path = folder.join("server.log").display().to_string();
    let short = folder.join("note-001.txt").display().to_string();
    let steps = [
        call("read_text_file", json!({ "path": path })),
        call("list_directory", json!({ "path": folder })),
        call("directory_tree", json!({ "path": folder })),
        call("read_text_file", json!({ "path": short })),
    ];
    everywhere(&server, &steps, |answers| {
        ensure!(
            answers[0].len() > 100 && text(&answers[0]) == log,
            "{} chunks, {} bytes",
            answers[0].len(),
            text(&answers[0]).len()
        );
        ensure!(text(&answers[1]).matches("[FILE]").count() == 81);
        let tree: usize = answers[2]
            .iter()
            .filter_map(|page| page.json().ok())
            .map(|page| page["items"].as_array().or(page.as_array()).map_or(0, Vec::len))
            .sum();
        ensure!(tree == 81, "{tree} entries in the tree");
        ensure!(text(&answers[3]) == "A short note.\n" && answers[3][0].notice().is_none());
        Ok(())
    })?;
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn memory_graph_is_paged() -> Result<()> {
    let folder = peers::folder("memory")?;
    let file = folder.join("memory.jsonl");
    let entity = |at: usize| json!({"name": format!("Entity {at}"), "entityType": "person", "observations": [format!("observation {at}, with \"quotes\" and é")]});
    let relation = |at: usize| json!({"from": format!("Entity {at}"), "to": format!("Entity {}", at + 1), "relationType": "knows"});
    let line = |kind: &str, mut value: Value| {
        value["type"] = kind.into();
        value.to_string() + "\n"
    };
    let lines: String = (0..3_000)
        .map(|at| line("entity", entity(at)))
        .chain((0..2_999).map(|at| line("relation", relation(at))))
        .collect();
    std::fs::write(&file, lines)?;
    let server = Server::npm("server-memory", &[])?;
    // The server takes the path of its file from the environment.
    let server = Server(
        [vec!["env".to_owned(), format!("MEMORY_FILE_PATH={}", file.display())], server.0].concat(),
    );
    let steps =
        [call("read_graph", json!({})), call("search_nodes", json!({"query": "Entity 2999"}))];
    everywhere(&server, &steps, |answers| {
        let pages: Vec<Value> = answers[0].iter().map(Answer::json).collect::<Result<_>>()?;
        let all = |key: &str| -> Vec<Value> {
            pages
                .iter()
                .flat_map(|page| page[key].as_array().cloned().unwrap_or_default())
                .collect()
        };
        let (entities, relations) = (all("entities"), all("relations"));
        ensure!(
            entities == (0..3_000).map(entity).collect::<Vec<_>>(),
            "{} entities on {} pages",
            entities.len(),
            pages.len()
        );
        ensure!(
            relations == (0..2_999).map(relation).collect::<Vec<_>>(),
            "{} relations",
            relations.len()
        );
        ensure!(answers[1].len() == 1);
        Ok(())
    })?;
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn everything_structured_and_images_pass() -> Result<()> {
    let steps = [
        call("echo", json!({"message": "hello"})),
        call("get-structured-content", json!({"location": "New York"})),
        call("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        call("get-sum", json!({"a": 2, "b": 3})),
        call("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})),
        json!({"op": "read", "name": "demo://resource/static/document/features.md"}),
    ];
    everywhere(&Server::npm("server-everything", &[])?, &steps, |answers| {
        ensure!(text(&answers[0]).contains("hello") && text(&answers[3]).contains('5'));
        ensure!(answers[1][0].result()["structuredContent"]["temperature"].is_number());
        let blocks = answers[2][0].result()["content"].as_array().cloned().unwrap_or_default();
        ensure!(blocks.iter().any(|block| block["type"] == "image"));
        ensure!(text(&answers[5]).contains('#'));
        Ok(())
    })
}

#[test]
fn git_history_is_chunked() -> Result<()> {
    let folder = peers::folder("git")?;
    peers::git(&folder, &["init", "-q"])?;
    for at in 0..60 {
        std::fs::write(folder.join("file.txt"), format!("version {at}\n").repeat(40))?;
        peers::git(&folder, &["add", "."])?;
        peers::git(
            &folder,
            &[
                "commit",
                "-qm",
                &format!("Change number {at}\n\nA body that says why, in a full sentence."),
            ],
        )?;
    }
    let path = folder.display().to_string();
    let steps = [
        call("git_log", json!({"repo_path": path, "max_count": 100})),
        call("git_status", json!({"repo_path": path})),
        call("git_diff", json!({"repo_path": path, "target": "HEAD~50"})),
    ];
    everywhere(
        &Server::python("py", "mcp-server-git", &["--repository", &path])?,
        &steps,
        |answers| {
            ensure!(answers[0].len() > 1, "{} answers", answers[0].len());
            ensure!((0..60).all(|at| text(&answers[0]).contains(&format!("Change number {at}"))));
            ensure!(text(&answers[1]).contains("nothing to commit"));
            Ok(())
        },
    )?;
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn sqlite_python_rows_are_complete() -> Result<()> {
    let folder = peers::folder("sqlite")?;
    let database = folder.join("test.db").display().to_string();
    let rows = "SELECT i AS id, 'guest ' || i AS name, i * 1.5 AS total FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n)";
    let steps = [
        call("create_table", json!({"query": "CREATE TABLE IF NOT EXISTS t (a INTEGER)"})),
        call("list_tables", json!({})),
        call("read_query", json!({ "query": rows })),
    ];
    everywhere(
        &Server::python("py-sqlite", "mcp-server-sqlite", &["--db-path", &database])?,
        &steps,
        |answers| {
            let walked = text(&answers[2]);
            ensure!(
                answers[2].len() > 1
                    && walked.starts_with("[{'id': 1,")
                    && walked.ends_with("'total': 1350.0}]"),
                "{} answers",
                answers[2].len()
            );
            ensure!(walked.matches("'id': ").count() == 900);
            Ok(())
        },
    )?;
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn time_answers_are_unchanged() -> Result<()> {
    let steps = [call(
        "convert_time",
        json!({"source_timezone": "Europe/Lisbon", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    )];
    let server = Server::python("py", "mcp-server-time", &["--local-timezone", "UTC"])?;
    everywhere(&server, &steps, |answers| {
        ensure!(
            answers[0].len() == 1
                && answers[0][0].notice().is_none()
                && text(&answers[0]).contains("Asia/Tokyo")
        );
        Ok(())
    })
}
