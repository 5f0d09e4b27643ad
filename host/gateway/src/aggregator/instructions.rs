//! The instructions of a gateway with several upstreams, made of those of the upstreams. Clients
//! keep them in the model's context for the whole session.

use super::Aggregator;
use super::connections::Described;

/// The maximum total length of the upstreams' instructions, in bytes: about 4,000 tokens.
const MAX_BYTES: usize = 16 << 10;
/// The maximum number of missing upstreams that a text names.
const MAX_NAMES: usize = 20;

impl Aggregator {
    /// Returns the instructions for a client. They name the upstreams that do not answer yet.
    pub(super) fn instructions(&self, described: &[Described]) -> String {
        let mut text = "A gateway to several servers.".to_owned();
        if self.router.is_prefixed() {
            text.push_str(" Names of tools and prompts begin with the server's: server__tool.");
        }
        let (mut own, mut missing) = (Vec::new(), Vec::new());
        for (server, info) in described {
            let Some(server) = self.connections.servers.get(*server) else { continue };
            match info {
                Ok(info) => {
                    own.extend(info.instructions.as_deref().map(|text| (&*server.name, text)))
                }
                Err(_) => missing.push(server.name.as_str()),
            }
        }
        text.push_str(&sections(&own));
        text.push_str(&missing_note(&missing));
        text
    }
}

/// Returns the instructions of the upstreams under their names. If they are too long together, the
/// longest ones are cut to an equal length.
fn sections(own: &[(&str, &str)]) -> String {
    let mut lengths: Vec<usize> = own.iter().map(|(_, text)| text.len()).collect();
    lengths.sort_unstable();
    let (mut left, mut share) = (MAX_BYTES, usize::MAX);
    for (at, length) in lengths.iter().enumerate() {
        let equal = left / (lengths.len() - at);
        if *length > equal {
            share = equal;
            break;
        }
        left -= length;
    }
    let section = |(name, text): &(&str, &str)| {
        let end = text.floor_char_boundary(share);
        match text.get(..end).filter(|_| end < text.len()) {
            Some(part) => {
                format!("\n\n# {name}\n{part}… (the first {end} of {} bytes)", text.len())
            }
            None => format!("\n\n# {name}\n{text}"),
        }
    };
    own.iter().map(section).collect()
}

/// Returns a paragraph that names the upstreams that do not answer yet. Empty if there are none.
fn missing_note(missing: &[&str]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let named = first_names(missing);
    format!("\n\nNot available when this session began: {named}. Their tools may appear later.")
}

/// Returns the names of missing upstreams, separated by commas. Of many, returns the first few and
/// the number of the others.
pub(super) fn first_names(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_instructions_share_the_limit() {
        let (short, long) = ("s".repeat(100), "ä".repeat(20_000));
        let all = sections(&[("a", &short), ("b", &long), ("c", &long)]);
        assert!(all.len() < MAX_BYTES + 200, "{}", all.len());
        assert!(all.contains(&format!("# a\n{short}\n\n# b\nää")));
        assert_eq!(all.matches("(the first 8142 of 40000 bytes)").count(), 2);
        assert_eq!(sections(&[("a", "x"), ("b", "y")]), "\n\n# a\nx\n\n# b\ny");
        assert!(!sections(&[("a", &"x".repeat(MAX_BYTES))]).contains("bytes)"));
    }

    #[test]
    fn missing_upstreams_are_one_paragraph() {
        assert_eq!(missing_note(&[]), "");
        let names: Vec<String> = (0..102).map(|at| format!("n{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let note = missing_note(&names);
        assert!(note.contains("n19 and 82 more. Their tools") && note.len() < 250, "{note}");
    }
}
