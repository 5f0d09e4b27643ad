//! Removes `context-guard wrap` from the command of a server, because the gateway itself guards its
//! upstreams.

/// Options of `wrap` and of the program that take no value.
const FLAGS: [&str; 5] = ["--code", "--learn", "--no-history", "--verbose", "-v"];
/// Programs that start another program, whose command line follows the launcher's options.
const LAUNCHERS: [&str; 11] =
    ["npx", "pnpx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn", "bun", "uv", "cmd"];

/// Removes every `context-guard wrap [OPTIONS] [--]` from the beginning of the command, even if a
/// launcher such as npx starts it. Returns the removed options.
pub(super) fn unwrap_command(command: &mut Vec<String>) -> Vec<String> {
    let mut options = Vec::new();
    while let Some((removed, inner)) = split(command) {
        options.extend(removed);
        *command = inner;
    }
    options
}

/// Subcommands of the program that start servers for a client.
const SERVING: [&str; 3] = ["wrap", "stdio", "serve"];
/// Shells that receive a command line as one argument.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "fish", "cmd", "powershell", "pwsh"];

/// Returns the subcommand of `context-guard` that a command line runs, directly or by a launcher or
/// shell. `None` if it runs another program. An argument that only ends with the name, such as a
/// folder, does not count.
#[must_use]
pub fn guard_command(command: &[String]) -> Option<String> {
    let program = program_name(command.first()?);
    if program == "context-guard" {
        let subcommand = command.iter().skip(1).find(|argument| !argument.starts_with('-'));
        return Some(subcommand.cloned().unwrap_or_default());
    }
    let serving = |words: &[&str]| {
        let guard = words.iter().position(|word| program_name(word) == "context-guard")?;
        let mut rest = words
            .iter()
            .skip(guard + 1)
            .filter(|word| !word.starts_with('-') && program_name(word) != "context-guard");
        rest.next().filter(|word| SERVING.contains(word)).map(|word| (*word).to_owned())
    };
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    serving(&words).or_else(|| {
        let line = words.iter().skip(1).find(|word| word.contains("context-guard"))?;
        let words: Vec<&str> =
            line.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        SHELLS.contains(&program.as_str()).then(|| serving(&words))?
    })
}

/// Returns the server's command in a command line that runs `context-guard wrap`, directly or by a
/// launcher such as npx. It is the end of `command`. `None` for other commands, and behind a shell
/// or another program.
#[must_use]
pub fn guarded_command(command: &[String]) -> Option<&[String]> {
    let (_, inner) = split(command)?;
    command.get(command.len().checked_sub(inner.len())?..).filter(|inner| !inner.is_empty())
}

/// Splits a command that runs `wrap`. Returns the options of `wrap` and the inner command. `None`
/// for other commands.
fn split(command: &[String]) -> Option<(Vec<String>, Vec<String>)> {
    let launched = LAUNCHERS.contains(&program_name(command.first()?).as_str());
    let is_guard = |argument: &String| program_name(argument) == "context-guard";
    let at = command.iter().position(is_guard)?;
    // `npx -p context-guard context-guard wrap` has the name twice.
    let at = at + command.get(at..)?.iter().take_while(|argument| is_guard(argument)).count() - 1;
    if at > 0 && !launched {
        return None;
    }
    let mut rest = command.get(at + 1..)?;
    let mut options = Vec::new();
    let mut is_wrap = false;
    loop {
        let (first, others) = rest.split_first()?;
        match first.as_str() {
            "wrap" if !is_wrap => is_wrap = true,
            // A launcher may end its own options: `npm exec context-guard -- wrap`.
            "--" if !is_wrap => {}
            "--" => return Some((options, others.to_vec())),
            option if option.starts_with('-') => {
                options.push(first.clone());
                let has_value = !option.contains('=') && !FLAGS.contains(&option);
                if has_value && let Some((value, others)) = others.split_first() {
                    options.push(value.clone());
                    rest = others;
                    continue;
                }
            }
            _ if is_wrap => return Some((options, rest.to_vec())),
            _ => return None,
        }
        rest = others;
    }
}

/// Returns the name of a program without its folder, version and extension.
fn program_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('@').next().unwrap_or(name).to_ascii_lowercase();
    let ending = [".exe", ".cmd", ".ps1"].iter().find_map(|ending| name.strip_suffix(ending));
    ending.map_or(name.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{guard_command, guarded_command};

    fn found(line: &[&str]) -> Option<String> {
        guard_command(&line.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn guard_is_found_behind_launchers_and_shells() {
        for line in [
            &["context-guard", "wrap", "--", "npx"] as &[&str],
            &["C:\\Tools\\context-guard.exe", "-v", "wrap", "uvx"],
            &["npx", "-y", "context-guard@0.1.0", "wrap", "--", "x"],
            &["uvx", "--from", "./context_guard.whl", "context-guard", "wrap", "--", "x"],
            &["npx", "-p", "context-guard", "context-guard", "wrap", "x"],
            &["env", "A=b", "/opt/bin/context-guard", "wrap", "--", "x"],
            &["sh", "-c", "exec '/opt/bin/context-guard' wrap -- npx x"],
        ] {
            assert_eq!(found(line).as_deref(), Some("wrap"), "{line:?}");
        }
        assert_eq!(found(&["context-guard", "stdio", "--config", "x"]).as_deref(), Some("stdio"));
    }

    #[test]
    fn guarded_command_follows_the_guard() {
        for line in [
            &["context-guard", "wrap", "--", "npx", "x"] as &[&str],
            &["context-guard", "wrap", "npx", "x"],
            &["npx", "-y", "context-guard", "wrap", "--policy", "p.yaml", "--", "npx", "x"],
            &["context-guard", "wrap", "--code", "--no-history", "npx", "x"],
            &["cmd", "/c", "npx", "context-guard", "wrap", "--", "npx", "x"],
        ] {
            let line: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(guarded_command(&line).unwrap(), ["npx", "x"], "{line:?}");
        }
        for line in [
            &["env", "A=b", "context-guard", "wrap", "--", "x"] as &[&str],
            &["context-guard", "wrap", "--"],
            &["npx", "x"],
        ] {
            let line: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(guarded_command(&line), None, "{line:?}");
        }
    }

    #[test]
    fn folders_and_texts_with_the_name_are_no_guard() {
        for line in [
            &["npx", "-y", "server-filesystem", "/home/ada/context-guard"] as &[&str],
            &["npx", "-y", "server-filesystem", "/home/ada/context-guard", "/home/wrap"],
            &["uvx", "mcp-server-git", "--repository", "context-guard"],
            &["grep-server", "context-guard wrap"],
            &[],
        ] {
            assert_eq!(found(line), None, "{line:?}");
        }
    }
}
