//! The npm package: transports of both SDKs, its types, its stores, and the example page in a real
//! Chromium.

use std::path::Path;
use std::process::Command;

use context_guard_test_support::gateway::{ArchiveServer, Process};
use context_guard_test_support::peers::folder;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// Returns the JSON that a script of tests/support/browser prints.
fn script(name: &str, arguments: &[&str]) -> Result<Value> {
    let script = artifacts::root().join("tests/support/browser").join(name);
    let mut command = Command::new(artifacts::node()?);
    command.arg(script).args(arguments).env("PEERS", artifacts::peers()?);
    let done = command.output()?;
    ensure!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).with_context(|| name.to_owned())
}

fn package() -> Result<String> {
    Ok(artifacts::dist("npm/context-guard")?.display().to_string())
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> Result<()> {
    let done = Command::new(program).args(arguments).current_dir(folder).output()?;
    let printed = [done.stdout, done.stderr].concat();
    ensure!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&printed));
    Ok(())
}

/// Returns a copy of an example after `npm install`, in a folder named after the `test` that uses
/// it.
fn installed(example: &str, test: &str) -> Result<std::path::PathBuf> {
    let copy = folder(&format!("example-{example}-{test}"))?;
    for file in std::fs::read_dir(artifacts::root().join("examples").join(example))? {
        let file = file?.path();
        if file.is_file() {
            std::fs::copy(&file, copy.join(file.file_name().context("no name")?))?;
        }
    }
    let manifest = std::fs::read_to_string(copy.join("package.json"))?;
    let here = format!("file:{}", package()?);
    let manifest = manifest.replace("file:../../target/dist/npm/context-guard", &here);
    std::fs::write(copy.join("package.json"), manifest)?;
    run("npm", &["install", "--no-fund", "--no-audit", "--loglevel=error"], &copy)?;
    Ok(copy)
}

#[test]
fn sdk_transports_are_guarded() -> Result<()> {
    let server = ArchiveServer::start(false)?;
    let seen = script("transports.mjs", &[&package()?, &server.url])?;
    for client in ["v1", "v2", "modern"] {
        let seen = &seen[client];
        ensure!(
            seen["tools"]
                .as_array()
                .is_some_and(|tools| tools.contains(&json!("context_guard_read"))),
            "{client}: {seen}"
        );
        ensure!(seen["many"] == json!([5, 700, 40, 900, 1, 650]), "{client}: {}", seen["many"]);
        let pages: Vec<u64> = serde_json::from_value(seen["bookings"].clone())?;
        ensure!(pages.len() > 5 && pages.iter().sum::<u64>() == 500, "{client}: {pages:?}");
        ensure!(seen["progress"] == json!([1, 2, 3]) && seen["slow"] == 300, "{client}: {seen}");
        ensure!(
            seen["picture"]["mimeType"] == "image/png" && seen["unknown"] == true,
            "{client}: {seen}"
        );
        ensure!(
            seen["bad"][0] == true && seen["bad"][1].to_string().contains("cursor_invalid"),
            "{client}: {seen}"
        );
        let first = &seen["records"][0];
        ensure!(
            first["mode"] == "page" && first["estimatedTokens"].as_u64() < Some(4_000),
            "{client}: {first}"
        );
        ensure!(first["originalTokens"].as_u64() > Some(15_000), "{client}: {first}");
    }
    Ok(())
}

#[test]
fn types_match_sdk_transports() -> Result<()> {
    let folder = folder("types")?;
    let modules = folder.join("node_modules");
    std::fs::create_dir_all(&modules)?;
    let peers = artifacts::peers()?.join("node_modules");
    for name in std::fs::read_dir(&peers)? {
        let name = name?.file_name();
        std::os::unix::fs::symlink(peers.join(&name), modules.join(&name))?;
    }
    std::os::unix::fs::symlink(package()?, modules.join("context-guard"))?;
    let source = artifacts::root().join("tests/support/browser/types.ts");
    std::fs::copy(source, folder.join("types.ts"))?;
    std::fs::write(folder.join("package.json"), r#"{"type": "module"}"#)?;
    let compiler = modules.join("typescript/bin/tsc").display().to_string();
    let flags = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom",
        "--types",
        "",
        "types.ts",
    ];
    let arguments: Vec<&str> = [compiler.as_str()].into_iter().chain(flags).collect();
    run(&artifacts::node()?.display().to_string(), &arguments, &folder)
}

#[test]
fn cursors_survive_a_page_reload() -> Result<()> {
    let folder = folder("browser-stores")?;
    std::fs::write(
        folder.join("blank.html"),
        "<!doctype html><link rel=icon href=data:,><title>stores</title>",
    )?;
    let seen = script("stores.mjs", &[&package()?, &folder.display().to_string()])?;
    ensure!(seen["first"].as_u64() >= Some(50), "{seen}");
    ensure!(seen["expired"].to_string().contains("cursor_expired"), "{seen}");
    ensure!(seen["other"].to_string().contains("cursor_invalid"), "{seen}");
    ensure!(seen["left"] == json!(["k"]) && seen["gone"] == true, "{seen}");
    Ok(())
}

#[test]
fn example_page_works_in_chromium() -> Result<()> {
    let page = installed("browser", "built")?;
    run("npm", &["run", "build"], &page)?;
    for module in ["context_guard_bg", "context_guard_jq_bg"] {
        let mut assets = std::fs::read_dir(page.join("dist/assets"))?.flatten();
        let is_module = |name: &str| name.starts_with(module) && name.ends_with(".wasm");
        let is_built = assets.any(|file| file.file_name().to_str().is_some_and(is_module));
        ensure!(is_built, "the bundler does not copy {module}");
    }
    let server = ArchiveServer::start(false)?;
    let screenshot = page.join("browser.png");
    let arguments = [page.join("dist"), screenshot.clone()].map(|path| path.display().to_string());
    let seen = script("page.mjs", &[&arguments[0], &server.url, &arguments[1]])?;
    let bars: Vec<String> = serde_json::from_value(seen["bars"].clone())?;
    ensure!(bars.len() == 6 && bars[2].contains("tokens before"), "{bars:?}");
    ensure!(bars[3].starts_with("… read on") && bars[5].starts_with("read_log"), "{bars:?}");
    ensure!(
        seen["total"].as_str().is_some_and(|total| total.ends_with("% less so far.")),
        "{seen}"
    );
    // Each page shows its place, such as "1-77 of 500", and its first booking.
    let mut starts = Vec::new();
    for (place, text) in [(0, "first"), (1, "second")] {
        let place = seen["places"][place].as_str().context("no place")?;
        let range = place.split(" of 500").next().and_then(|before| before.rsplit(' ').next());
        let start = range.and_then(|range| range.split('-').next()).context("no range")?;
        let start: usize = start.trim_matches(|c: char| !c.is_ascii_digit()).parse()?;
        ensure!(seen[text].to_string().contains(&format!("BK-{:04}", start - 1)), "{seen}");
        starts.push(start);
    }
    ensure!(starts[0] == 1 && starts[1] > 100, "{}", seen["places"]);
    ensure!(seen["folds"] == json!([true, false]), "{}", seen["folds"]);
    ensure!(seen["contract"].to_string().contains("nextCursor"), "{}", seen["contract"]);
    ensure!(seen["grounds"][0] != seen["grounds"][1], "light and dark are the same: {seen}");
    ensure!(seen["wrong"].to_string().contains("no JSON") && seen["overflow"] == 0, "{seen}");
    ensure!(std::fs::metadata(&screenshot)?.len() > 20_000);
    if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
        std::fs::copy(&screenshot, artifacts::root().join("docs/images/browser.png"))?;
        std::fs::copy(
            page.join("browser-dark.png"),
            artifacts::root().join("docs/images/browser-dark.png"),
        )?;
    }
    Ok(())
}

#[test]
fn example_page_works_in_development() -> Result<()> {
    let page = installed("browser", "development")?;
    let mut vite = Command::new(artifacts::node()?);
    vite.arg("node_modules/vite/bin/vite.js").args(["--host", "127.0.0.1", "--port", "0"]);
    vite.env("NO_COLOR", "1").current_dir(&page);
    let vite = Process::start(vite, true, "/\n")?;
    let printed = vite.output();
    let url = printed.split_whitespace().find(|word| word.starts_with("http://"));
    let server = ArchiveServer::start(false)?;
    let seen = script("development.mjs", &[url.with_context(|| printed.clone())?, &server.url])?;
    ensure!(seen["status"].to_string().contains("guarded in this page"), "{seen}");
    ensure!(seen["failed"].to_string().contains("The guard cannot be loaded"), "{seen}");
    Ok(())
}

#[test]
fn module_is_loaded_from_any_source() -> Result<()> {
    let folder = folder("browser-init")?;
    let page = "<!doctype html><link rel=icon href=data:,><title>init</title>";
    std::fs::write(folder.join("blank.html"), page)?;
    let seen = script("init.mjs", &[&package()?, &folder.display().to_string()])?;
    ensure!(seen["early"].to_string().contains("await init()"), "{seen}");
    let sources = ["default", "path", "url", "response", "promise", "bytes", "buffer", "module"];
    for place in ["page", "node"] {
        for source in sources {
            ensure!(seen[place][source] == 2_000, "{place}, {source}: {seen}");
        }
    }
    ensure!(seen["missing"][0].to_string().contains("404"), "{seen}");
    ensure!(seen["missing"][1] == 2_000, "a failed attempt was final: {seen}");
    Ok(())
}

#[test]
fn programs_load_a_second_module() -> Result<()> {
    let folder = folder("browser-jq")?;
    let page = "<!doctype html><link rel=icon href=data:,><title>jq</title>";
    std::fs::write(folder.join("blank.html"), page)?;
    let seen = script("jq.mjs", &[&package()?, &folder.display().to_string()])?;
    let (first, second) = ("context_guard_bg.wasm", "context_guard_jq_bg.wasm");
    ensure!(seen["before"] == json!([first]), "{seen}");
    ensure!(seen["requested"] == json!([first, second]), "{seen}");
    ensure!(seen["nodeBefore"] == 0 && seen["nodeAfter"] == 1, "{seen}");
    for place in ["page", "node"] {
        let seen = &seen[place];
        ensure!(seen["where"] == r#"[{"id":1998},{"id":1999}]"#, "{place}: {seen}");
        ensure!(seen["after"] == r#"[{"id":1999}]"#, "{place}: {seen}");
        ensure!(seen["read"] == json!(["1999000", "record 7", "[8,9]"]), "{place}: {seen}");
        ensure!(
            seen["called"] == "record 1999" && seen["forwarded"] == json!({}),
            "{place}: {seen}"
        );
        ensure!(seen["carried"] == "record 1999", "{place}: {seen}");
        ensure!(seen["wrong"][0] == true, "{place}: {seen}");
        ensure!(seen["wrong"][1].to_string().contains("jq cannot be read"), "{place}: {seen}");
    }
    for source in ["url", "function", "bytes"] {
        ensure!(seen["sources"][source] == "3", "{source}: {seen}");
    }
    let missing = seen["missing"][0].to_string();
    ensure!(missing.contains("404") && missing.contains("pass its URL to init"), "{missing}");
    ensure!(seen["missing"][1] == "3", "a failed attempt was final: {seen}");
    ensure!(seen["worker"] == "6", "{seen}");
    Ok(())
}

#[test]
fn batches_are_shaped() -> Result<()> {
    let seen = script("batches.mjs", &[&package()?])?;
    // The guard answers the read itself, and forwards the others as one batch.
    ensure!(seen["sent"] == json!([["first", "second"], ["notifications/x"]]), "{seen}");
    ensure!(seen["ids"] == json!([[1, 2, 4], 3]), "{seen}");
    ensure!(seen["totals"] == json!([2_000, 2_000]) && seen["same"] == true, "{seen}");
    ensure!(seen["next"].as_u64() > Some(0), "{seen}");
    Ok(())
}

#[test]
fn package_works_without_a_client() -> Result<()> {
    let seen = script("package.mjs", &[&package()?])?;
    let errors = seen["policy"][1].to_string();
    ensure!(
        seen["policy"][0] == true
            && errors.contains("did you mean `tokenBudgetThreshold`")
            && errors.contains("defaultPageSize"),
        "{errors}"
    );
    ensure!(seen["warnings"] == json!([]));
    ensure!(seen["forms"] == json!(["Object", "String", "Uint8Array"]), "{}", seen["forms"]);
    ensure!(seen["same"] == true && seen["ping"]["changed"] == false, "{seen}");
    ensure!(seen["ping"]["ticket"].is_null() && seen["forged"] == true, "{seen}");
    ensure!(seen["rotated"].to_string().contains("cursor_expired"), "{}", seen["rotated"]);
    ensure!(
        seen["cut"][0].to_string().contains("PARTIAL") && seen["cut"][1] == true,
        "{}",
        seen["cut"]
    );
    ensure!(seen["cut"][2].to_string().contains("no store"), "{}", seen["cut"]);
    ensure!(seen["without"] == 2_000 && seen["asked"].to_string().contains("cursor_"), "{seen}");
    ensure!(
        seen["replay"][0] == "list" && seen["replay"][1].as_u64() > Some(10),
        "{}",
        seen["replay"]
    );
    ensure!(seen["changed"].to_string().contains("data_changed"), "{}", seen["changed"]);
    ensure!(seen["used"] == json!([4, null, 4]) && seen["later"] == json!([null, 4, 4]), "{seen}");
    ensure!(seen["full"].to_string().contains("exceed the store limit"), "{seen}");
    ensure!(seen["tokens"][0].as_u64() > Some(1) && seen["tokens"][1].as_u64() > Some(2));
    Ok(())
}
