//! Removes `context-guard wrap` from the command of a server: the gateway guards its upstreams.

/// Options of `wrap` and of the program that have no value.
const FLAGS: [&str; 3] = ["--learn", "--verbose", "-v"];
/// Programs that start another program, which follows their own options.
const LAUNCHERS: [&str; 11] =
    ["npx", "pnpx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn", "bun", "uv", "cmd"];

/// Removes every `context-guard wrap [OPTIONS] [--]` from the beginning of the command, also if a
/// launcher such as npx starts it. Returns the removed options.
pub(super) fn unwrap_command(command: &mut Vec<String>) -> Vec<String> {
    let mut options = Vec::new();
    while let Some((removed, inner)) = split(command) {
        options.extend(removed);
        *command = inner;
    }
    options
}

/// Returns the options of `wrap` and the inner command.
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

/// Returns the name of a program without its folder, version and ending.
fn program_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('@').next().unwrap_or(name).to_ascii_lowercase();
    let ending = [".exe", ".cmd", ".ps1"].iter().find_map(|ending| name.strip_suffix(ending));
    ending.map_or(name.clone(), str::to_owned)
}
