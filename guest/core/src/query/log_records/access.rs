//! Log entries of servers: access logs of web servers, proxies and load balancers, and labels in
//! their error logs.

use std::borrow::Cow;

use super::{LogMember, is_key};

/// Adds the members of an access log: `client - user [time] "GET /path HTTP/1.1" 200 12 "…" "…"`.
/// Returns false if the entry has another form.
pub(super) fn common<'l>(before: &'l str, rest: &'l str, members: &mut Vec<LogMember<'l>>) -> bool {
    let read = || {
        let (request, after) = rest.strip_prefix('"')?.split_once("\" ")?;
        let mut words = after.split(' ');
        let (status, bytes) = (words.next()?, words.next().unwrap_or("-"));
        // A virtual host may be before the client: user and identity follow it.
        let mut words = before.trim_end_matches(['[', ' ']).rsplit(' ');
        let (user, client) = (words.next()?, words.nth(1)?);
        let quoted: Vec<&str> = after.split('"').skip(1).step_by(2).collect();
        is_status(status).then_some((client, user, request, status, bytes, quoted))
    };
    let Some((client, user, request, status, bytes, quoted)) = read() else { return false };
    let value = |text: &'l str| Cow::Borrowed(if text == "-" { "" } else { text });
    members.extend([("client", client.into()), ("user", value(user))]);
    add_request(request, members);
    members.extend([("status", status.into()), ("bytes", value(bytes))]);
    members.extend(["referer", "agent"].into_iter().zip(quoted.into_iter().map(value)));
    true
}

/// Adds the members of an entry with a request in quotes, in the formats of HAProxy, Envoy, load
/// balancers and application servers. The status is after the request, or before it together with
/// numbers of bytes. Adds nothing if the entry has no such request.
pub(super) fn request<'l>(before: &'l str, rest: &'l str, members: &mut Vec<LogMember<'l>>) {
    let Some((head, request, after)) = quoted_request(rest) else { return };
    let words = |text: &'l str| text.split_ascii_whitespace();
    let client = words(before).chain(words(head)).chain(words(after)).find_map(address);
    members.extend(client.map(|client| ("client", client.into())));
    add_request(request, members);
    let is_count = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let (status, bytes) = match words(after).next().filter(|word| is_status(word)) {
        Some(status) => (Some(status), words(after).nth(1).filter(is_count)),
        None => {
            let words: Vec<&str> = words(head).collect();
            let is_number = |word: &&str| *word == "-" || is_count(word);
            let at = words.windows(2).position(
                |pair| matches!(pair, [status, next] if is_status(status) && is_number(next)),
            );
            let counts = words.get(at.map_or(words.len(), |at| at + 1)..).unwrap_or_default();
            let counts = counts.iter().copied().take_while(is_number);
            (at.and_then(|at| words.get(at).copied()), counts.filter(is_count).last())
        }
    };
    let found = [("status", status), ("bytes", bytes)].into_iter();
    members.extend(found.filter_map(|(name, value)| Some((name, value?.into()))));
}

/// Adds the labels of an error log: `[pid 12:tid 34] [client 10.0.0.1:80]` at its start, and
/// `client: 10.0.0.1, server: a, request: "GET / HTTP/1.1"` at its end. Returns false if the entry
/// has none at its end.
pub(super) fn labels<'l>(rest: &'l str, members: &mut Vec<LogMember<'l>>) -> bool {
    let without_port = |value: &'l str| Cow::Borrowed(address(value).unwrap_or(value));
    let mut next = rest;
    while let Some((inner, after)) = next.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let parts =
            if inner.matches(' ').count() > 1 { inner.split(':') } else { inner.split('\n') };
        for part in parts {
            let pair = part.split_once(' ').filter(|(key, value)| {
                is_key(key)
                    && (value.starts_with(|c: char| c.is_ascii_digit()) || value.contains(':'))
            });
            members.extend(pair.map(|(key, value)| (key, without_port(value))));
        }
        next = after.trim_start();
    }
    let label = |part: &'l str| {
        let (key, value) = part.split_once(": ").filter(|(key, _)| is_key(key))?;
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        (quoted.is_some() || !value.contains(' ')).then(|| (key, quoted.unwrap_or(value)))
    };
    let mut found: Vec<(&str, &str)> = rest.rsplit(", ").map_while(label).collect();
    found.reverse();
    let has_labels = found.len() > 1;
    if has_labels {
        let request = found.iter().find(|(key, _)| *key == "request");
        if let Some((_, request)) = request {
            add_request(request, members);
        }
        members.extend(found.into_iter().map(|(key, value)| (key, without_port(value))));
    }
    has_labels
}

fn is_status(word: &str) -> bool {
    word.len() == 3
        && word.starts_with(['1', '2', '3', '4', '5'])
        && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Adds method and path of a request line: `GET /path HTTP/1.1`.
fn add_request<'l>(request: &'l str, members: &mut Vec<LogMember<'l>>) {
    let is_method = |method: &str| {
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    if let Some((method, target)) = request.split_once(' ').filter(|(method, _)| is_method(method))
    {
        let path = target.rsplit_once(" HTTP/").map_or(target, |(path, _)| path);
        members.extend([("method", method.into()), ("path", path.into())]);
    }
}

/// Returns the text before a quoted request line, the request line, and the text after it. `None`
/// if there is none.
pub(super) fn quoted_request(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find(" HTTP/")?;
    let start = text.get(..end)?.rfind('"')? + 1;
    let (request, after) = text.get(start..)?.split_once('"')?;
    let is_method = request.starts_with(|c: char| c.is_ascii_uppercase());
    is_method.then_some((text.get(..start - 1)?, request, after))
}

/// Returns the IP address in a word, without its port. `None` for other words, and for IPv6
/// addresses without `::`.
fn address(word: &str) -> Option<&str> {
    let word = word.trim_matches(['"', ',', '(', ')']);
    if let Some((inner, _)) = word.strip_prefix('[').and_then(|word| word.split_once(']')) {
        return address(inner);
    }
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == ':';
    if word.matches(':').count() > 1 {
        return word.chars().all(is_hex).then_some(word).filter(|word| word.contains("::"));
    }
    let host = word.split(':').next()?;
    let is_number = |part: &str| part.len() <= 3 && part.parse::<u8>().is_ok();
    (host.split('.').count() == 4 && host.split('.').all(is_number)).then_some(host)
}
