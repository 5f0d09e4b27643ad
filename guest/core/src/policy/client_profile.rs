//! Client profiles: the content of results that MCP clients show to their models, and its limits.
//!
//! The table holds only clients whose behaviour is known from their source code or from reproduced
//! reports. All others are treated as clients that show text and structured content.

mod table;

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

/// The way in which a client shows images of results to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSupport {
    /// The model gets them as images.
    Native,
    /// The model gets them as text, such as Base64 or a URL, which costs many more tokens.
    Text,
    /// The model does not get them.
    Dropped,
    /// The treatment is not known.
    Unknown,
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
    /// The number of bytes above which the client cuts a result, if known.
    pub max_bytes: Option<u64>,
    /// The number of characters above which the client cuts a result, if known.
    pub max_characters: Option<u64>,
    /// The number of lines above which the client cuts a result, if known.
    pub max_lines: Option<u64>,
    /// The number of characters above which the client cuts a result that is an error, if known.
    pub max_error_characters: Option<u64>,
    /// True if the client shows the beginning of a longer result. The guard then repeats the cursor
    /// before the content.
    pub cuts_end: bool,
    /// True if the client reads all pages of `tools/list`, false if it reads the first only. `None`
    /// if this is not known.
    pub follows_lists: Option<bool>,
    /// The way in which the model sees images.
    pub images: ImageSupport,
    /// The source code or thread that shows the behaviour.
    pub source: &'static str,
}

/// The limits of a client for what it shows of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownLimits {
    /// The maximum number of bytes. `None` for no known limit.
    pub bytes: Option<u64>,
    /// The maximum number of lines. `None` for no known limit.
    pub lines: Option<u64>,
    /// True if the client shows the data of images and audio as text.
    pub shows_data: bool,
}

impl ShownLimits {
    /// Returns the cost of shown content: its `tokens`, or more if its `bytes` or `lines` use a
    /// larger share of their limits. `token_limit` is the limit of the whole answer.
    #[must_use]
    pub fn cost(&self, tokens: u64, bytes: u64, lines: u64, token_limit: u64) -> u64 {
        let scaled = |used: u64, most: u64| used.saturating_mul(token_limit).div_ceil(most.max(1));
        let of_bytes = self.bytes.map_or(0, |most| scaled(bytes, most));
        let of_lines = self.lines.map_or(0, |most| scaled(lines, most));
        tokens.max(of_bytes).max(of_lines)
    }

    /// Returns true if the client has no known limit, and shows no data as text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub use table::{CLIENT_PROFILES, VERIFIED};

impl ClientProfile {
    /// Returns the profile of the client with this name in `clientInfo`. `None` if it is unknown.
    /// Proxies append to names, so the beginning of the name decides. Names are not authenticated:
    /// a profile changes only the form of a result.
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
        let known = context_guard_protocol::client::known_name(name)?;
        CLIENT_PROFILES.iter().find(|profile| profile.name == known)
    }

    /// Returns the limits for what the client shows of a result or, if `is_error`, of an error. A
    /// limit of characters is used as one of bytes, which are at least as many.
    #[must_use]
    pub fn shown_limits(&self, is_error: bool) -> ShownLimits {
        let of_errors = self.max_error_characters.filter(|_| is_error);
        let limits = [self.max_bytes, self.max_characters, of_errors];
        ShownLimits {
            bytes: limits.into_iter().flatten().min(),
            lines: self.max_lines,
            shows_data: self.images == ImageSupport::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// Returns the number of days from 1970-01-01 to a date such as `2026-11-27`.
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
        let profiles = CLIENT_PROFILES.iter().filter(|known| known.follows_lists == Some(false));
        let names: Vec<&str> = profiles.map(|profile| profile.name).collect();
        assert_eq!(names, context_guard_protocol::client::FIRST_PAGE_CLIENTS);
    }

    #[test]
    fn similar_names_are_other_clients() {
        assert_eq!(ClientProfile::find("late"), ClientProfile::find("late-cli"));
        assert_eq!(ClientProfile::find("latest-client"), None);
        assert_eq!(ClientProfile::find("pi-mcp-files").map(|one| one.name), Some("pi-mcp-"));
    }

    #[test]
    fn names_are_lower_case_and_distinct() {
        for (at, profile) in CLIENT_PROFILES.iter().enumerate() {
            assert_eq!(profile.name, profile.name.to_lowercase());
            let later = CLIENT_PROFILES.iter().skip(at + 1);
            assert!(later.clone().all(|other| other.name != profile.name));
            assert_eq!(ClientProfile::find(profile.name), Some(profile));
        }
    }
}
