//! The thread and the module that wrote a log entry, as logging libraries state them: `ERROR [main]
//! shop.Payment - declined`, `[main] ERROR shop.Payment - declined`, `shop.payment - ERROR -
//! declined`.

use super::MAX_NAME_BYTES;

/// Returns the thread in brackets after the time or after the level, and the text after it. `None`
/// if none is stated. `between` is the text between time and level, and `rest` that after them.
pub(super) fn thread<'l>(between: &'l str, rest: &'l str) -> (Option<&'l str>, &'l str) {
    if let Some(name) = between.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'))
        && is_thread(name)
    {
        return (Some(name), rest);
    }
    let mut found = (None, rest);
    // Some state the application before the thread.
    while let Some((name, after)) = after_separators(found.1)
        .strip_prefix('[')
        .and_then(|text| text.split_once(']'))
        .filter(|(name, _)| is_thread(name))
    {
        found = (Some(name), after);
    }
    found
}

/// Returns the text after spaces, dashes and a process number, which may precede a thread.
fn after_separators(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t', '-']);
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = if number.len() < text.len() { number } else { text };
    let plain = number.trim_start_matches([' ', '\t', '-']);
    if plain.starts_with('[') { plain } else { text }
}

fn is_thread(name: &str) -> bool {
    let name = name.trim();
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.contains(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.#/$@".contains(c))
}

/// Returns the module that wrote an entry, and the message. `None` if none is stated.
///
/// Without a thread, a name of one word is a word of the message, unless it is before the level.
pub(super) fn source<'l>(
    between: &'l str,
    rest: &'l str,
    has_thread: bool,
) -> Option<(&'l str, &'l str)> {
    let own = between.trim_matches([' ', '\t', '-', ':', '|']);
    if is_module(own) && between.trim_start().starts_with(['-', '|']) {
        return Some((own, rest));
    }
    let (name, message) = [" - ", " : ", ": ", " -- ", " | "]
        .iter()
        .filter_map(|separator| rest.split_once(separator))
        .min_by_key(|(name, _)| name.len())?;
    let name = name.trim_end();
    let has_dot = name.contains(['.', '/']) && !name.starts_with(|c: char| c.is_ascii_digit());
    // `[db] timeout - retrying` has a word of the message there.
    let is_class = has_thread && name.contains(char::is_uppercase);
    (is_module(name) && (is_class || has_dot)).then_some((name, message))
}

fn is_module(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./$:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_modules_are_found() {
        for (between, rest, expected) in [
            (
                "",
                " [worker-2] pay.Gateway - a - b",
                (Some("worker-2"), Some(("pay.Gateway", "a - b"))),
            ),
            (" [main] ", " c.e.App : up", (Some("main"), Some(("c.e.App", "up")))),
            (" [main] ", " App - up", (Some("main"), Some(("App", "up")))),
            (
                "",
                " 4711 --- [shop] [nio-8080-exec-1] o.s.Web : done",
                (Some("nio-8080-exec-1"), Some(("o.s.Web", "done"))),
            ),
            (" - root - ", " - started", (None, Some(("root", "started")))),
            ("", " shop.pay: failed", (None, Some(("shop.pay", "failed")))),
            ("", " Started - done", (None, None)),
            ("", " [db] timeout - retrying", (Some("db"), None)),
            ("", " [pid 12] [client 10.0.0.1:80] File is absent: /x", (None, None)),
            ("", " [12] 10.0.0.1 - gone", (None, None)),
            ("", " nothing to report", (None, None)),
        ] {
            let (name, after) = thread(between, rest);
            let after = after.trim_start_matches(super::super::SEPARATORS);
            let found = source(between, after, name.is_some());
            let found = found.map(|(name, message)| (name, message.trim()));
            assert_eq!((name, found), expected, "{between}|{rest}");
        }
    }
}
