//! Finds the servers of clients among the upstreams of an existing gateway file.

use crate::Upstream;

/// The variables at the same place of two texts: that of the gateway file, and that of the import.
pub type VariablePair = (String, String);

/// Compares an upstream of a gateway file with an imported one. Returns the pairs of variables if
/// both are the same server: the same command and folder, or the same URL, with the same
/// environment. Names of variables may differ, and the gateway file may have a reference in place
/// of a value. `None` for different servers.
#[must_use]
pub fn same_server(upstream: &Upstream, imported: &Upstream) -> Option<Vec<VariablePair>> {
    let mut pairs = Vec::new();
    if upstream.command.len() != imported.command.len() || upstream.cwd != imported.cwd {
        return None;
    }
    for (own, other) in upstream.command.iter().zip(&imported.command) {
        pairs.extend(aligned(own, other)?);
    }
    match (&upstream.url, &imported.url) {
        (None, None) => {}
        (Some(own), Some(other)) => pairs.extend(aligned(own, other)?),
        _ => return None,
    }
    if !upstream.env.keys().eq(imported.env.keys()) {
        return None;
    }
    for (own, other) in upstream.env.values().zip(imported.env.values()) {
        match aligned(own.expose(), other.expose()) {
            Some(own) => pairs.extend(own),
            None if own.expose().contains("${") => {}
            None => return None,
        }
    }
    // A login may be in place of a header.
    for (name, own) in &upstream.headers {
        let other = imported.headers.get(name);
        pairs.extend(
            other.and_then(|other| aligned(own.expose(), other.expose())).unwrap_or_default(),
        );
    }
    Some(pairs)
}

/// Returns the pairs of variables of two texts that are equal except for the names of variables.
/// `None` for other texts.
fn aligned(own: &str, other: &str) -> Option<Vec<VariablePair>> {
    let (literals, names) = parts(own);
    let (other_literals, other_names) = parts(other);
    let own = names.into_iter().map(str::to_owned);
    (literals == other_literals)
        .then(|| own.zip(other_names.into_iter().map(str::to_owned)).collect())
}

/// Splits a text into the literals around its `${env:NAME}` references, and the names. A reference
/// with a default is a part of the literals.
fn parts(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut literals, mut names) = (Vec::new(), Vec::new());
    let (mut start, mut at) = (0, 0);
    while let Some((from, name, end)) = text.get(at..).and_then(|rest| {
        let from = rest.find("${env:")?;
        let name = rest.get(from + 6..)?.split_once('}')?.0;
        Some((at + from, name, at + from + 6 + name.len() + 1))
    }) {
        if !name.contains(":-") {
            literals.push(text.get(start..from).unwrap_or_default());
            names.push(name);
            start = end;
        }
        at = end;
    }
    literals.push(text.get(start..).unwrap_or_default());
    (literals, names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn upstream(command: &[&str], env: &[(&str, &str)]) -> Upstream {
        Upstream {
            command: command.iter().map(|&part| part.to_owned()).collect(),
            env: env.iter().map(|&(name, text)| (name.to_owned(), Secret::new(text))).collect(),
            ..Upstream::default()
        }
    }

    fn pairs(own: &Upstream, imported: &Upstream) -> Option<String> {
        let pairs = same_server(own, imported)?;
        Some(pairs.iter().map(|(own, other)| format!("{own}={other};")).collect())
    }

    #[test]
    fn variables_of_the_same_server_are_paired() {
        let own = upstream(&["npx", "${env:URL}/x"], &[("A", "Bearer ${env:A_2}"), ("B", "1")]);
        let imported = upstream(&["npx", "${env:U}/x"], &[("A", "Bearer ${env:A}"), ("B", "1")]);
        assert_eq!(pairs(&own, &imported).as_deref(), Some("URL=U;A_2=A;"));
        let moved = upstream(&["npx"], &[("A", "${file:key}")]);
        assert_eq!(pairs(&moved, &upstream(&["npx"], &[("A", "${env:A}")])).as_deref(), Some(""));
    }

    #[test]
    fn different_servers_have_no_pairs() {
        let own = upstream(&["npx", "fs", "/one"], &[("A", "1")]);
        for other in [
            upstream(&["npx", "fs", "/two"], &[("A", "1")]),
            upstream(&["npx", "fs"], &[("A", "1")]),
            upstream(&["npx", "fs", "/one"], &[("A", "2")]),
            upstream(&["npx", "fs", "/one"], &[]),
            Upstream { cwd: Some("/x".into()), ..own.clone() },
            Upstream { url: Some("http://x".to_owned()), ..own.clone() },
        ] {
            assert_eq!(pairs(&own, &other), None, "{other:?}");
        }
    }
}
