//! The client-visible names of tools and prompts, as far as the gateway file determines them.

use super::gateway_file::{Config, Naming};

/// The minimum number of characters that the name of an upstream should leave for the names of its
/// tools.
const MIN_TOOL_CHARACTERS: usize = 40;
/// The maximum length of a tool's name that all models accept, in characters, without the separator
/// `__`.
const MAX_NAME_CHARACTERS: usize = 64 - "__".len();

impl Config {
    /// Returns true if client-visible names of tools and prompts begin with the name of their
    /// upstream.
    #[must_use]
    pub fn is_prefixed(&self) -> bool {
        let mcp = self.upstreams.iter().filter(|upstream| upstream.rest.is_none()).count();
        match self.naming {
            Naming::Auto => mcp > 1,
            Naming::Prefixed => true,
            Naming::Plain => false,
        }
    }

    /// Returns a warning for each upstream whose name is long or contains a dot. The gateway then
    /// probably replaces the names of its tools, because models refuse them.
    #[must_use]
    pub fn name_warnings(&self) -> Vec<String> {
        let mcp = self.upstreams.iter().filter(|upstream| upstream.rest.is_none());
        let prefixed = mcp.filter(|_| self.is_prefixed());
        prefixed.filter_map(|upstream| warning(&upstream.name)).collect()
    }
}

fn warning(name: &str) -> Option<String> {
    let left = MAX_NAME_CHARACTERS.saturating_sub(name.len());
    if name.contains('.') {
        return Some(format!(
            "{name}: models refuse `.` in names of tools, so clients see other names for all tools of this upstream: use letters, digits, `-` and `_`"
        ));
    }
    (left < MIN_TOOL_CHARACTERS).then(|| {
        format!(
            "{name}: models accept names of 64 characters, so clients see other names for tools whose names have more than {left}: choose a shorter name for the upstream"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_dotted_names_are_warned_of() {
        assert_eq!(warning("files"), None);
        assert!(warning("api.v2").is_some_and(|text| text.contains("`.`")));
        let long = warning("an-upstream-with-a-long-name-v2");
        assert!(long.is_some_and(|text| text.contains("more than 31")));
    }
}
