//! The generated reference and schema of the gateway's settings match the files in docs/.

use context_guard_core::policy::{CLIENT_PROFILES, ImageSupport, VERIFIED};
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::Value;
use std::fmt::Write as _;

/// Follows the references of a schema.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let reference = |schema: &'s Value| {
        schema["$ref"].as_str().and_then(|path| root.pointer(path.trim_start_matches('#')))
    };
    if let Some(found) = reference(schema) {
        return found;
    }
    // An option is either the schema or null.
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    let one: Vec<&Value> = choices.filter(|choice| choice["type"] != "null").collect();
    match one.as_slice() {
        [only] => resolved(root, only),
        _ => schema,
    }
}

fn rows(
    root: &Value,
    schema: &Value,
    path: &str,
    defaults: &Value,
    out: &mut String,
) -> Result<()> {
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let default = match (&member["default"], &defaults[name.as_str()]) {
            (Value::Null, default) | (default, _) => default,
        };
        let target = resolved(root, member);
        let items = resolved(root, &target["items"]);
        let text = member["description"]
            .as_str()
            .or_else(|| target["description"].as_str())
            .unwrap_or_default();
        let (inner, deeper) = if items["properties"].is_object() {
            (items, format!("{path}[]"))
        } else {
            (target, path.clone())
        };
        let choices: Vec<String> = target["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["const"].as_str())
            .map(|one| format!("`{one}`"))
            .collect();
        let nested = inner["properties"].is_object();
        let shown = match default {
            Value::Null => String::new(),
            Value::Object(_) if nested => String::new(),
            default => format!("`{default}`"),
        };
        let choices = if choices.is_empty() {
            String::new()
        } else {
            format!(" One of {}.", choices.join(", "))
        };
        writeln!(out, "| `{path}` | {shown} | {}{choices} |", text.replace('\n', " "))?;
        if nested {
            rows(
                root,
                inner,
                &deeper,
                if default.is_object() { default } else { &inner["default"] },
                out,
            )?;
        }
    }
    Ok(())
}

#[test]
fn gateway_settings_are_documented() -> Result<()> {
    let schema = context_guard::config::schema();
    let mut settings = String::from(
        "# Settings of the gateway\n\nGenerated from the code; see [Serve many servers](../how-to/serve-many-servers.md). `upstreams[]` is\na list.\n\n| setting | default | what it is |\n|---|---|---|\n",
    );
    rows(&schema, &schema, "", &Value::Null, &mut settings)?;
    let schema = serde_json::to_string_pretty(&schema)? + "\n";
    for (name, text) in [("gateway.schema.json", schema), ("gateway-settings.md", settings)] {
        let path = artifacts::root().join("docs/reference").join(name);
        if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
            std::fs::write(&path, &text)?;
        }
        let published =
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        ensure!(
            published == text,
            "docs/reference/{name} is out of date: run `cargo xtask generate`"
        );
    }
    Ok(())
}

#[test]
fn client_profiles_are_documented() -> Result<()> {
    let path = artifacts::root().join("docs/reference/client-profiles.md");
    let page = std::fs::read_to_string(&path)?;
    let number = |limit: Option<u64>| limit.map_or("–".to_owned(), |limit| limit.to_string());
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    ensure!(rows == CLIENT_PROFILES.len(), "{rows} rows");
    for profile in &CLIENT_PROFILES {
        let visible = serde_json::to_value(profile.visible)?;
        let pages = match profile.follows_lists {
            Some(true) => "all",
            Some(false) => "first",
            None => "–",
        };
        let images = match profile.images {
            ImageSupport::Native => "native",
            ImageSupport::Text => "text",
            ImageSupport::Dropped => "dropped",
            ImageSupport::Unknown => "–",
        };
        let row = format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | {pages} | {images} | {} |",
            profile.name,
            visible.as_str().context("no name")?,
            number(profile.max_tokens),
            number(profile.max_bytes),
            number(profile.max_characters),
            number(profile.max_lines),
            number(profile.max_error_characters),
            profile.source
        );
        ensure!(page.lines().any(|line| line == row), "{} lacks {row}", path.display());
    }
    ensure!(page.contains(&format!("Verified on {VERIFIED}.")), "{VERIFIED} is missing");
    Ok(())
}
