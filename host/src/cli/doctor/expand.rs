//! Replaces the variables in a client's file, as the client itself does.

use std::path::Path;

use context_guard_install::Client;

/// Returns the text with `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${workspaceFolder}`,
/// `${workspaceRoot}`, `${userHome}`, `${pathSeparator}` and `${/}` replaced by their values. Text
/// after a `${` without `}` remains. Gemini CLI also replaces `$NAME` if the variable is set.
///
/// # Errors
/// The reference whose value is unknown, such as `${input:key}`.
pub(super) fn expand(client: Client, text: &str, file: &Path) -> Result<String, String> {
    let add = |expanded: &mut String, literal: &str| match client {
        Client::GeminiCli => add_bare(expanded, literal),
        _ => expanded.push_str(literal),
    };
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, inner)) = rest.split_once("${") {
        add(&mut expanded, before);
        let Some((reference, after)) = inner.split_once('}') else {
            // Nothing closes the reference, so it is text.
            expanded.push_str("${");
            rest = inner;
            break;
        };
        expanded.push_str(&value(reference, file).ok_or_else(|| format!("${{{reference}}}"))?);
        rest = after;
    }
    add(&mut expanded, rest);
    Ok(expanded)
}

/// Adds a literal with `$NAME` replaced by the values of variables that are set.
fn add_bare(expanded: &mut String, literal: &str) {
    let mut rest = literal;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, after) =
            after.split_at_checked(end.unwrap_or(after.len())).unwrap_or((after, ""));
        match std::env::var(name).ok().filter(|_| !name.is_empty()) {
            Some(value) => expanded.push_str(&value),
            None => expanded.extend(["$", name]),
        }
        rest = after;
    }
    expanded.push_str(rest);
}

fn value(reference: &str, file: &Path) -> Option<String> {
    let home = || std::env::var(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).ok();
    match reference {
        "userHome" => return home(),
        "workspaceFolder" | "workspaceRoot" => {
            let folder = file.parent()?;
            let name = folder.file_name()?.to_str()?;
            let is_hidden = name.starts_with('.');
            let root = if is_hidden { folder.parent()? } else { folder };
            return root.to_str().map(str::to_owned);
        }
        "pathSeparator" | "/" => return Some(std::path::MAIN_SEPARATOR_STR.to_owned()),
        _ => {}
    }
    let name = reference.strip_prefix("env:").unwrap_or(reference);
    let (name, default) = match name.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (name, None),
    };
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let set = std::env::var(name).ok().filter(|_| is_name);
    set.or_else(|| default.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded() {
        let file = Path::new("/home/ada/shop/.vscode/mcp.json");
        let path = std::env::var("PATH").unwrap();
        let expand = |text: &str, file: &Path| expand(Client::VsCode, text, file);
        assert_eq!(expand("a ${env:PATH} b", file).unwrap(), format!("a {path} b"));
        assert_eq!(expand("${CG_TEST_UNSET:-x}/$y", file).unwrap(), "x/$y");
        assert_eq!(expand("${workspaceFolder}/s.js", file).unwrap(), "/home/ada/shop/s.js");
        assert_eq!(expand("${input:key}", file).unwrap_err(), "${input:key}");
        assert_eq!(expand("${CG_TEST_UNSET}", file).unwrap_err(), "${CG_TEST_UNSET}");
        assert_eq!(expand("open ${ x", file).unwrap(), "open ${ x");
    }

    #[test]
    fn bare_names_are_those_of_gemini() {
        let file = Path::new("/home/ada/.gemini/settings.json");
        let path = std::env::var("PATH").unwrap();
        let gemini = |text: &str| expand(Client::GeminiCli, text, file).unwrap();
        assert_eq!(gemini("a $PATH/b ${PATH}"), format!("a {path}/b {path}"));
        assert_eq!(gemini("5$ $CG_TEST_UNSET $"), "5$ $CG_TEST_UNSET $");
        assert_eq!(expand(Client::Cursor, "$PATH", file).unwrap(), "$PATH");
    }
}
