//! Client profiles: the content of results that MCP clients show to their models, and its limits.
//!
//! The table holds only clients whose behaviour is known from their source code or from reproduced
//! reports. All others are treated as clients that show text and structured content.

use serde::{Deserialize, Serialize};

/// The content of results that a client shows to its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum VisibleContent {
    /// Text only. Structured content then holds the result metadata alone.
    Text,
    /// Structured content only, if a result has it. The text then holds the result notice alone.
    Structured,
    /// Both, or unknown. Each content is paid from the budget.
    #[default]
    Both,
}

/// The content of results that a client shows to its model, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// The beginning of the name in `clientInfo`, in lower case.
    pub name: &'static str,
    /// The content that the model sees.
    pub visible: VisibleContent,
    /// The number of tokens above which the client cuts a result or writes it to a file. `None` if
    /// it has no such limit, or the limit is not known.
    pub max_tokens: Option<u64>,
    /// The same in bytes. Some clients count characters, which are at most as many.
    pub max_bytes: Option<u64>,
    /// The thread in which the behaviour is reported.
    pub source: &'static str,
}

/// The day on which the profiles were verified.
pub const VERIFIED: &str = "2026-11-23";

/// The profiles of known clients.
pub const CLIENT_PROFILES: [ClientProfile; 7] = [
    ClientProfile {
        name: "claude-code",
        visible: VisibleContent::Structured,
        // It warns above 10,000 tokens, and writes results above 25,000 to files.
        max_tokens: Some(9_500),
        max_bytes: Some(50_000),
        source: "anthropics/claude-code#79944",
    },
    ClientProfile {
        name: "codex-mcp-client",
        visible: VisibleContent::Structured,
        // About 10,000, which depends on the model.
        max_tokens: Some(9_500),
        max_bytes: None,
        source: "openai/codex#6544",
    },
    ClientProfile {
        name: "cursor-vscode",
        visible: VisibleContent::Structured,
        max_tokens: None,
        max_bytes: None,
        source: "modelcontextprotocol/modelcontextprotocol#1411",
    },
    ClientProfile {
        name: "visual studio code",
        visible: VisibleContent::Text,
        max_tokens: None,
        max_bytes: Some(8_192),
        source: "microsoft/vscode#254329",
    },
    ClientProfile {
        name: "gemini-cli-mcp-client",
        visible: VisibleContent::Text,
        max_tokens: None,
        max_bytes: Some(40_000),
        source: "google-gemini/gemini-cli, source of 2026-08-21",
    },
    ClientProfile {
        name: "qwen-code",
        visible: VisibleContent::Text,
        max_tokens: None,
        max_bytes: Some(25_000),
        source: "QwenLM/qwen-code#2446",
    },
    ClientProfile {
        name: "github-copilot-developer",
        visible: VisibleContent::Both,
        max_tokens: None,
        max_bytes: Some(10_240),
        source: "github/copilot-cli#4515",
    },
];

impl ClientProfile {
    /// Returns the profile of the client with this name in `clientInfo`. `None` if it is unknown.
    /// Proxies append to names, so the beginning decides. Names prove no identity: a profile
    /// changes only the form of a result.
    ///
    /// ```
    /// use context_guard_core::policy::{ClientProfile, VisibleContent};
    ///
    /// let profile = ClientProfile::find("claude-code (via mcp-remote 0.1.18)").unwrap();
    /// assert_eq!(profile.visible, VisibleContent::Structured);
    /// assert_eq!(ClientProfile::find("mcp"), None);
    /// ```
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let begins_with = |prefix: &str| {
            name.as_bytes()
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        CLIENT_PROFILES.iter().find(|profile| begins_with(profile.name))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// Returns the number of days from 1970 to a date of the Gregorian calendar.
    fn days(date: &str) -> i64 {
        let mut parts = date.split('-').map(|part| part.parse::<i64>().unwrap());
        let (year, month, day) =
            (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        // Years that begin in March end with the leap day.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let leap_days = year / 4 - year / 100 + year / 400;
        year * 365 + leap_days + (month * 153 + 2) / 5 + day - 719_469
    }

    #[test]
    fn profiles_were_verified_in_the_last_120_days() {
        assert_eq!((days("1970-01-01"), days("2000-03-01")), (0, 11_017));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
        let age = i64::try_from(now).unwrap() - days(VERIFIED);
        assert!(age <= 120, "verify CLIENT_PROFILES against their sources: {age} days old");
    }

    #[test]
    fn hosts_know_the_names() {
        let names = CLIENT_PROFILES.map(|profile| profile.name);
        assert_eq!(names, context_guard_protocol::client::CLIENT_NAMES);
    }

    #[test]
    fn names_are_lower_case_and_distinct() {
        for (at, profile) in CLIENT_PROFILES.iter().enumerate() {
            assert_eq!(profile.name, profile.name.to_lowercase());
            let later = CLIENT_PROFILES.iter().skip(at + 1);
            assert!(later.clone().all(|other| !other.name.starts_with(profile.name)));
        }
    }
}
