//! Characters that are invisible, or that change the order of others.

use super::excerpt;

/// The black flag, which starts the emoji of a region. Tag characters after it spell the region.
const BLACK_FLAG: char = '\u{1f3f4}';
/// The maximum number of tag characters in the emoji of a region, including the terminator.
const MAX_FLAG_TAGS: usize = 7;

/// The role of a character in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Visible,
    /// Never belongs in a description.
    Hidden,
    /// A tag character, which spells a letter invisibly.
    Tag,
    /// Joins or separates letters in some scripts and emoji.
    Joiner,
    /// Sets the direction of a text with letters that are written from right to left.
    DirectionMark,
    /// Selects a form of the character before it.
    VariationSelector,
}

fn role(character: char) -> Role {
    match character {
        '\u{e0000}'..='\u{e007f}' => Role::Tag,
        '\u{200c}' | '\u{200d}' => Role::Joiner,
        '\u{200e}' | '\u{200f}' | '\u{61c}' => Role::DirectionMark,
        '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}'
        | '\u{180b}'..='\u{180d}'
        | '\u{180f}' => Role::VariationSelector,
        '\t' | '\n' | '\r' => Role::Visible,
        // Controls, embeddings and overrides of direction, annotations; then the other characters
        // with the property Default_Ignorable_Code_Point of Unicode.
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e0fff}' => Role::Hidden,
        _ => Role::Visible,
    }
}

/// Returns true if a character is not visible. Excerpts show it as an escape.
pub(super) fn is_invisible(character: char) -> bool {
    role(character) != Role::Visible
}

/// Returns true for letters of scripts that are written from right to left.
fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Returns an excerpt at the first hidden character. If that begins a text in tag characters, the
/// excerpt is the decoded text. `None` if there is no hidden character.
pub(super) fn find(text: &str) -> Option<String> {
    let has_only_text =
        text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'));
    if has_only_text {
        return None;
    }
    let mut has_right_to_left = None;
    let (mut previous, mut flag_tags) = ('\0', None);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map_or('\0', |(_, next)| *next);
        let is_hidden = match role(character) {
            Role::Visible => false,
            Role::Hidden => true,
            Role::Tag => match &mut flag_tags {
                Some(count) if *count < MAX_FLAG_TAGS => {
                    *count += 1;
                    false
                }
                _ => true,
            },
            // Persian, Indic scripts and emoji need joiners, but never two in a row, which encode
            // data.
            Role::Joiner => role(next) == Role::Joiner || (previous.is_ascii() && next.is_ascii()),
            Role::DirectionMark => {
                let has =
                    has_right_to_left.get_or_insert_with(|| text.chars().any(is_right_to_left));
                !*has
            }
            // One selector may follow a character, of ASCII only those of emoji for keys. Several
            // encode data.
            Role::VariationSelector => {
                role(previous) == Role::VariationSelector
                    || (previous.is_ascii() && !matches!(previous, '0'..='9' | '#' | '*'))
            }
        };
        if is_hidden {
            return Some(describe(text, at, character));
        }
        if character == BLACK_FLAG {
            flag_tags = Some(0);
        } else if role(character) != Role::Tag {
            flag_tags = None;
        }
        previous = character;
    }
    None
}

fn describe(text: &str, at: usize, character: char) -> String {
    const MAX_TAGS: usize = 80;
    if role(character) != Role::Tag {
        return excerpt(text, at, at + character.len_utf8());
    }
    let tags = text.get(at..).unwrap_or_default().chars();
    let spelled: String = tags
        .take_while(|tag| role(*tag) == Role::Tag)
        .take(MAX_TAGS)
        .filter_map(|tag| char::from_u32(u32::from(tag) - 0xe_0000))
        .filter(|letter| matches!(letter, ' '..='~'))
        .collect();
    format!("in tag characters: {spelled}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_found() {
        let tags: String = "run it"
            .chars()
            .map(|c| char::from_u32(u32::from(c) + 0xe_0000).unwrap_or(c))
            .collect();
        for (text, shown) in [
            (format!("Adds numbers.{tags}"), "in tag characters: run it"),
            ("del\u{200b}ete".to_owned(), r"del\u{200b}ete"),
            ("a\u{202e}b".to_owned(), r"a\u{202e}b"),
            ("join\u{200d}ed".to_owned(), r"join\u{200d}ed"),
            ("mark\u{200f}ed".to_owned(), r"mark\u{200f}ed"),
            ("\u{1b}[31mred".to_owned(), r"\u{1b}[31mred"),
            ("😀\u{e0101}\u{e0102}".to_owned(), r"😀\u{e0101}\u{e0102}"),
            ("a\u{200c}\u{200d}\u{200c}b".to_owned(), r"a\u{200c}\u{200d}\u{200c}b"),
            ("ig\u{ad}nore".to_owned(), r"ig\u{ad}nore"),
            ("a\u{34f}b".to_owned(), r"a\u{34f}b"),
            ("a\u{1160}b".to_owned(), r"a\u{1160}b"),
            ("a \u{fe01}b".to_owned(), r"a \u{fe01}b"),
            ("a\u{e0200}b".to_owned(), r"a\u{e0200}b"),
        ] {
            assert_eq!(find(&text).as_deref(), Some(shown), "{text:?}");
        }
    }

    #[test]
    fn scripts_and_emoji_are_not_hidden() {
        let england = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
        for text in [
            "Lists\n\tfiles – quickly…",
            "می\u{200c}خواهم",
            "API\u{200c}ها",
            "press 1\u{fe0f}\u{20e3}",
            "❤\u{fe0f}\u{200d}🔥",
            "👩\u{200d}💻 and ❤\u{fe0f}",
            "שלום\u{200f} (hello)",
            england,
            "葛\u{e0100}城",
        ] {
            assert_eq!(find(text), None, "{text:?}");
        }
    }
}
