//! The client-visible names of the tools and prompts of upstreams. Names that models refuse are
//! replaced.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use tracing::warn;

use crate::engine::digest;

/// The separator between the name of the upstream and that of the tool in client-visible names.
const SEPARATOR: &str = "__";
/// The maximum length of a name that all models accept, in characters: OpenAI's limit for tools.
const MAX_NAME_LENGTH: usize = 64;
/// The number of hexadecimal digits of the digest at the end of a replaced name.
const DIGEST_DIGITS: usize = 8;
/// The number of characters of the original name at the beginning of a replaced name.
const KEPT_CHARACTERS: usize = MAX_NAME_LENGTH - DIGEST_DIGITS - 1;
/// The maximum number of replaced names in the table.
const MAX_REPLACED: usize = 65_536;
/// The maximum total size of the original names in the table, in bytes.
const MAX_REPLACED_BYTES: usize = 16 << 20;
/// The maximum length of a name in the log, in characters.
const MAX_LOGGED_CHARACTERS: usize = 128;

/// For each replaced name, the index of the upstream and its own name for the tool.
struct ReplacedNames {
    originals: LruCache<String, (usize, String)>,
    bytes: usize,
    /// The upstreams whose first replaced name was logged.
    logged: BTreeSet<usize>,
}

/// Maps names of tools and prompts between clients and upstreams. Upstreams are identified by
/// index.
pub(super) struct ClientNames {
    upstreams: Vec<String>,
    is_prefixed: bool,
    replaced: Mutex<ReplacedNames>,
}

impl ClientNames {
    /// Creates the mapping for these upstreams. `is_prefixed` is true if client-visible names begin
    /// with the name of the upstream.
    pub(super) fn new(upstreams: Vec<String>, is_prefixed: bool) -> Self {
        let replaced =
            ReplacedNames { originals: LruCache::unbounded(), bytes: 0, logged: BTreeSet::new() };
        Self { upstreams, is_prefixed, replaced: Mutex::new(replaced) }
    }

    /// Returns the names of the upstreams, in the order of the configuration.
    pub(super) fn upstreams(&self) -> &[String] {
        &self.upstreams
    }

    /// Returns true if client-visible names begin with the name of the upstream.
    pub(super) fn is_prefixed(&self) -> bool {
        self.is_prefixed
    }

    /// Returns the client-visible name of the tool or prompt `own` of an upstream. It is different
    /// for each tool, and the same in every run unless the digests of two names are equal.
    pub(super) fn to_client_name(&self, server: usize, own: &str) -> String {
        let Some(prefix) = self.upstreams.get(server).filter(|_| self.is_prefixed) else {
            return own.to_owned();
        };
        let full = format!("{prefix}{SEPARATOR}{own}");
        // Names that look replaced are replaced too. A tool with such a name could otherwise
        // receive the calls of another one.
        if is_accepted(&full) && !is_replacement(&full) {
            return full;
        }
        let mut replaced = self.replaced();
        let name = replaced.assign(&full, server, own);
        if replaced.logged.insert(server) {
            let original: String = full.chars().take(MAX_LOGGED_CHARACTERS).collect();
            warn!(
                upstream = prefix,
                "models refuse some names of tools or prompts: clients see other names, such as {name} for {original:?}"
            );
        }
        name
    }

    /// Returns the upstream's index and its own name for a tool or prompt, given the client-visible
    /// name. `None` if the prefix is unknown, or the name is a replaced one that the table does not
    /// contain, or no longer. Without prefixes, every name belongs to the first upstream.
    pub(super) fn find<'n>(&self, name: &'n str) -> Option<(usize, Cow<'n, str>)> {
        if !self.is_prefixed {
            return Some((0, name.into()));
        }
        if is_replacement(name) {
            let mut replaced = self.replaced();
            let (server, own) = replaced.originals.get(name)?;
            return Some((*server, own.clone().into()));
        }
        let (prefix, own) = name.split_once(SEPARATOR)?;
        let server = self.upstreams.iter().position(|known| known == prefix)?;
        Some((server, own.into()))
    }

    /// Returns the indexes of the upstreams to which a replaced name may belong. Empty for other
    /// names.
    pub(super) fn possible_owners(&self, name: &str) -> Vec<usize> {
        if !self.is_prefixed || !is_replacement(name) {
            return Vec::new();
        }
        let owners = self.upstreams.iter().enumerate().filter(|(_, upstream)| {
            let prefix = format!("{upstream}{SEPARATOR}");
            name.starts_with(&accepted_characters(&prefix))
        });
        owners.map(|(server, _)| server).collect()
    }

    fn replaced(&self) -> MutexGuard<'_, ReplacedNames> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplacedNames {
    /// Returns the name that replaces `full`, the prefixed name of the tool `own` of an upstream.
    /// Adds it to the table.
    fn assign(&mut self, full: &str, server: usize, own: &str) -> String {
        let mut attempt = 0u32;
        loop {
            let name = replacement(full, attempt);
            match self.originals.get(&name) {
                Some((owner, original)) if *owner == server && original == own => return name,
                // Eight digits are not enough to tell these two names apart.
                Some(_) => attempt += 1,
                None => {
                    self.bytes += own.len();
                    self.originals.put(name.clone(), (server, own.to_owned()));
                    while self.bytes > MAX_REPLACED_BYTES || self.originals.len() > MAX_REPLACED {
                        let Some((_, (_, oldest))) = self.originals.pop_lru() else { break };
                        self.bytes -= oldest.len();
                    }
                    return name;
                }
            }
        }
    }
}

/// Returns true if all models accept `name` as the name of a tool.
fn is_accepted(name: &str) -> bool {
    name.len() <= MAX_NAME_LENGTH && name.chars().all(is_accepted_character)
}

fn is_accepted_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Returns the text with `_` in place of each character that models refuse in names.
fn accepted_characters(text: &str) -> String {
    text.chars().map(|c| if is_accepted_character(c) { c } else { '_' }).collect()
}

/// Returns true if a name has the form of a replaced name.
fn is_replacement(name: &str) -> bool {
    let digits = name.rsplit_once('_').map(|(_, digits)| digits.as_bytes());
    digits.is_some_and(|digits| {
        digits.len() == DIGEST_DIGITS
            && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns a name that models accept, to replace `full`. It ends with a digest of `full`. Each
/// further `attempt` gives another digest.
fn replacement(full: &str, attempt: u32) -> String {
    let digest = match attempt {
        0 => digest(full.as_bytes()),
        _ => digest(format!("{full}\n{attempt}").as_bytes()),
    };
    let start: String = full.chars().take(KEPT_CHARACTERS).collect();
    let digits = digest.get(..DIGEST_DIGITS).unwrap_or_default();
    format!("{}_{digits}", accepted_characters(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(upstreams: &[&str], is_prefixed: bool) -> ClientNames {
        ClientNames::new(upstreams.iter().map(|name| (*name).to_owned()).collect(), is_prefixed)
    }

    #[test]
    fn names_are_prefixed_for_clients() {
        let many = names(&["files", "web-1"], true);
        assert_eq!(many.to_client_name(1, "get__it"), "web-1__get__it");
        assert_eq!(many.find("web-1__get__it"), Some((1, "get__it".into())));
        assert_eq!((many.find("none__x"), many.find("files")), (None, None));
        let one = names(&["files"], false);
        assert_eq!(
            (one.to_client_name(0, "a__b"), one.find("a__b")),
            ("a__b".into(), Some((0, "a__b".into())))
        );
    }

    #[test]
    fn refused_names_are_replaced() {
        let long = "read_".repeat(20);
        let tools = [
            (0, "get"),
            (1, long.as_str()),
            (1, "größe"),
            (1, "a.b"),
            (1, "a b"),
            (1, "a/b"),
            (2, "get"),
            (1, "\n\"\u{0}"),
            (1, "report_20241105"),
        ];
        let mut seen = BTreeSet::new();
        let known = names(&["api.v2", "files", "api_v2"], true);
        for (server, own) in tools {
            let name = known.to_client_name(server, own);
            assert!(is_accepted(&name) && seen.insert(name.clone()), "{name}");
            assert_eq!(known.find(&name), Some((server, own.into())));
            // Another run gives the same name, and finds its owner by the lists of upstreams.
            let restarted = names(&["api.v2", "files", "api_v2"], true);
            if is_replacement(&name) {
                assert_eq!(restarted.find(&name), None);
                assert!(restarted.possible_owners(&name).contains(&server), "{name}");
            }
            assert_eq!(restarted.to_client_name(server, own), name);
        }
        assert_eq!(
            known.to_client_name(1, &long),
            "files__read_read_read_read_read_read_read_read_read_rea_64d1e169"
        );
        assert_eq!(known.to_client_name(1, "a-b_c"), "files__a-b_c");
        assert!(known.possible_owners("files__get").is_empty());
    }

    #[test]
    fn tool_named_like_a_replacement_does_not_get_its_calls() {
        let known = names(&["x.y", "x_y"], true);
        let victim = known.to_client_name(0, "get");
        let own = victim.strip_prefix("x_y__").unwrap();
        let copy = known.to_client_name(1, own);
        assert_ne!(copy, victim);
        assert_eq!(known.find(&victim), Some((0, "get".into())));
        assert_eq!(known.find(&copy), Some((1, own.into())));
        // Not even before the victim is listed.
        let restarted = names(&["x.y", "x_y"], true);
        restarted.to_client_name(1, own);
        assert_eq!(restarted.find(&victim), None);
    }

    #[test]
    fn equal_digests_get_different_names() {
        let known = names(&["a"], true);
        let full = "a__b.c";
        let name = replacement(full, 0);
        known.replaced().originals.put(name.clone(), (0, "other".to_owned()));
        let second = known.to_client_name(0, "b.c");
        assert_ne!(second, name);
        assert_eq!(known.find(&second), Some((0, "b.c".into())));
    }

    #[test]
    fn remembered_names_are_bounded() {
        let known = names(&["a"], true);
        let tool = |at: usize| format!("{at}.{}", "x".repeat(1 << 20));
        for at in 0..40 {
            known.to_client_name(0, &tool(at));
        }
        assert!(known.replaced().bytes <= MAX_REPLACED_BYTES);
        assert_eq!(known.find(&known.to_client_name(0, &tool(39))), Some((0, tool(39).into())));
    }
}
