//! Accessibility snapshots of web pages, as browser tools write them. Each line is an element with
//! its role, its name and the reference by which other tools act on it.
//!
//! Two forms are supported: the YAML of Playwright, `- button "Send" [ref=e12]`, and the lines of
//! Chrome DevTools, `uid=1_12 button "Send"`.

use std::borrow::Cow;

/// The maximum number of names around an element, and of their bytes, that are compared with its
/// text.
const MAX_COMPARED_NAMES: usize = 16;
const MAX_COMPARED_BYTES: usize = 1_000;

/// The number of leading lines in which a snapshot is recognized.
const SAMPLE_LINES: usize = 200;
/// The minimum number of elements in the sample.
const MIN_ELEMENTS: usize = 12;
/// The length, in bytes, at which a line of short elements ends.
const LINE_BYTES: usize = 240;

/// The maximum length, in characters, of the address that is shown for a link without a name.
const ADDRESS_CHARACTERS: usize = 40;

/// Roles of elements on which a user acts. Their references are retained.
const CONTROLS: &str = "button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option \
    radio searchbox slider spinbutton switch tab textbox treeitem";
/// Roles of elements that take input, which highlights of a page include.
const INPUTS: &str = "checkbox combobox listbox radio searchbox slider spinbutton switch textbox";
/// Roles of elements that start a new line.
const BLOCKS: &str = "alert alertdialog article banner blockquote code complementary contentinfo \
    definition dialog figure form grid group heading list listitem main menu menubar \
    navigation note paragraph region row rowgroup search separator status table tablist \
    tabpanel term toolbar tree";
/// Roles of blocks outside the main content.
const ASIDES: &str = "banner complementary contentinfo menu menubar navigation";
/// Roles of blocks whose names are shown, because they identify the following part of the page.
const LANDMARKS: &str = "alert alertdialog banner complementary contentinfo dialog form main menu menubar \
    navigation region search tablist tabpanel toolbar";
/// Roles of all other elements.
const OTHERS: &str = "application caption cell columnheader deletion document emphasis generic gridcell \
    Iframe iframe image img InlineTextBox insertion LabelText LineBreak log marquee math \
    meter none presentation progressbar RootWebArea rowheader scrollbar StaticText \
    strong subscript superscript text time timer tooltip treegrid WebArea";
/// States that are shown. Others, such as the shape of the pointer, are irrelevant to a reader.
const STATES: &str = "active checked disabled expanded focused pressed selected";

/// A line of a page in compact form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotLine {
    /// The text of the line. Links are written as `[name](reference)`.
    pub text: String,
    /// The byte offset in the snapshot of the first element in the line.
    pub offset: usize,
    /// True for headings and for elements that take input.
    pub is_outline: bool,
    /// True outside of the main content: outside of `main` or, if the page has no `main`, in menus.
    pub is_aside: bool,
}

/// Converts a snapshot to compact lines, without containers, addresses and repeated names. `None`
/// if `source` is not an accessibility snapshot. O(n).
///
/// # Examples
///
/// ```
/// use context_guard_text::page_snapshot::snapshot_lines;
///
/// let mut snapshot = "- navigation [ref=e1]:\n".to_owned();
/// for at in 2..20 {
///     snapshot.push_str(&format!("  - link \"Page {at}\" [ref=e{at}] [cursor=pointer]:\n"));
///     snapshot.push_str("    - /url: /\n");
/// }
/// let lines = snapshot_lines(&snapshot).unwrap();
/// assert!(lines[0].text.starts_with("navigation: [Page 2](e2) [Page 3](e3) "));
/// ```
#[must_use]
pub fn snapshot_lines(source: &str) -> Option<Vec<SnapshotLine>> {
    let sample = || source.lines().take(SAMPLE_LINES);
    let elements = sample().filter(|line| SnapshotElement::parse(line).is_some()).count();
    if elements < MIN_ELEMENTS || elements * 2 < sample().count() {
        return None;
    }
    let mut page = Page::default();
    let mut offset = 0;
    for line in source.split_inclusive('\n') {
        match SnapshotElement::parse(line.trim_end()) {
            Some(element) => page.add(&element, offset),
            None => page.add_text(line.trim(), offset),
        }
        offset += line.len();
    }
    page.end_line();
    Some(page.into_lines())
}

/// An element of a snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
struct SnapshotElement<'s> {
    indent: usize,
    role: Cow<'s, str>,
    name: Cow<'s, str>,
    reference: String,
    level: usize,
    states: Vec<String>,
    text: Cow<'s, str>,
}

impl<'s> SnapshotElement<'s> {
    /// Parses a line. `None` if it is not an element of a known role.
    fn parse(line: &'s str) -> Option<Self> {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let mut element = if let Some(rest) = trimmed.strip_prefix("- ") {
            Self::of_yaml(rest)?
        } else {
            let rest = trimmed.strip_prefix("uid=")?;
            let (uid, rest) = rest.split_once(' ')?;
            Self { reference: uid.to_owned(), ..Self::of_words(Cow::Borrowed(rest))? }
        };
        element.indent = indent;
        let role = element.role.as_ref();
        let is_property = role.starts_with('/');
        let is_known = [CONTROLS, BLOCKS, OTHERS].into_iter().any(|roles| has(roles, role));
        (is_property || is_known).then_some(element)
    }

    /// Parses an item of a YAML list: a key and its value. `None` if it is not an element of a
    /// known role.
    fn of_yaml(item: &'s str) -> Option<Self> {
        let (key, value) = match item.chars().next()? {
            quote @ ('\'' | '"') => {
                let (key, rest) = unquoted(item, quote)?;
                (key, rest.strip_prefix(':').unwrap_or(rest))
            }
            _ => {
                let end = end_of_key(item);
                let (key, rest) = item.split_at(end);
                (Cow::Borrowed(key), rest.strip_prefix(':').unwrap_or(rest))
            }
        };
        let value = value.trim();
        let text = match value.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                unquoted(value, quote).map_or(value.into(), |text| text.0)
            }
            _ => Cow::Borrowed(value),
        };
        Some(Self { text, ..Self::of_words(key)? })
    }

    /// Parses a role, a quoted name, and attributes in brackets or after an equals sign. `None` if
    /// the role is unknown.
    fn of_words(words: Cow<'s, str>) -> Option<Self> {
        let mut element = Self::default();
        let role = words.split([' ', ':']).next().filter(|role| !role.is_empty())?;
        element.role = Cow::Owned(role.to_owned());
        let mut rest = words.get(role.len()..)?.trim_start();
        if rest.starts_with('"')
            && let Some((name, after)) = unquoted(rest, '"')
        {
            element.name = Cow::Owned(name.into_owned());
            rest = after;
        }
        for word in rest.split_whitespace() {
            let word = word.trim_matches(['[', ']', ':']);
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let value = value.trim_matches('"');
            match name {
                "ref" => value.clone_into(&mut element.reference),
                "level" => element.level = value.parse().unwrap_or(0),
                _ if has(STATES, name) => element.states.push(word.to_owned()),
                _ => {}
            }
        }
        Some(element)
    }

    fn is(&self, roles: &str) -> bool {
        has(roles, &self.role)
    }
}

/// Returns true if a list of words, separated by spaces, contains the word.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

/// Returns the length of the key of a YAML item, in bytes. Ignores colons in quotes, and those
/// before other characters than a space.
fn end_of_key(item: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in item.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ':' if !quoted
                && item
                    .get(at + 1..)
                    .is_none_or(|rest| rest.is_empty() || rest.starts_with(' ')) =>
            {
                return at;
            }
            _ => {}
        }
    }
    item.len()
}

/// Returns the value of a string that begins with `quote`, and the text after it. `None` if the
/// string is not closed.
fn unquoted(text: &str, quote: char) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.get(1..)?;
    let mut value = String::new();
    let mut characters = inner.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            // In single quotes, two stand for one.
            if quote == '\'' && characters.peek().is_some_and(|next| next.1 == quote) {
                characters.next();
            } else {
                return Some((Cow::Owned(value), inner.get(at + 1..).unwrap_or_default()));
            }
        } else if character == '\\' && quote == '"' {
            match characters.next()?.1 {
                'n' | 't' | 'r' => value.push(' '),
                other => value.push(other),
            }
            continue;
        }
        value.push(character);
    }
    None
}

/// Collects the lines of a page while its elements are read.
#[derive(Default)]
struct Page {
    lines: Vec<SnapshotLine>,
    line: String,
    offset: usize,
    is_outline: bool,
    /// The indent of the table row in the current line. `None` if it has none.
    row: Option<usize>,
    /// The indents of the open blocks that contain the next element. The boolean is true for the
    /// main content, false for a block outside of it.
    parts: Vec<(usize, bool)>,
    /// For each line, true in the main content, false in a block outside of it, and `None` in
    /// neither.
    part_of_lines: Vec<Option<bool>>,
    /// The indents and names of the named elements that contain the next element.
    names: Vec<(usize, String)>,
}

impl Page {
    fn add(&mut self, element: &SnapshotElement<'_>, offset: usize) {
        self.names.retain(|(indent, _)| *indent < element.indent);
        if self.parts.last().is_some_and(|(indent, _)| *indent >= element.indent) {
            self.end_line();
            self.parts.retain(|(indent, _)| *indent < element.indent);
        }
        if element.role == "main" || element.is(ASIDES) {
            self.end_line();
            self.parts.push((element.indent, element.role == "main"));
        }
        if element.role.starts_with('/') {
            return self.add_property(element, offset);
        }
        if self.row.is_some_and(|indent| element.indent <= indent) {
            self.end_line();
        }
        // Items that consist of links, as those of menus, share lines.
        let is_inline_item = element.role == "listitem" && element.text.is_empty();
        if element.is(BLOCKS) && !is_inline_item {
            self.end_line();
        }
        if element.role == "row" {
            self.row = Some(element.indent);
        }
        // The name of a row repeats its cells.
        let is_named = !element.name.is_empty() && element.role != "row";
        let name = if is_named { element.name.as_ref() } else { "" };
        // The text of an element without a name is its name.
        let label = if name.is_empty() { element.text.as_ref() } else { name };
        let around = self.names.iter().rev().take(MAX_COMPARED_NAMES);
        let is_repeated = around
            .filter(|(_, name)| name.len() <= MAX_COMPARED_BYTES)
            .any(|(_, name)| name.contains(label));
        let states = element.states.iter().map(|state| format!(" {state}")).collect::<String>();
        if element.role == "heading" {
            let marks = "#".repeat(element.level.clamp(1, 6));
            self.is_outline = true;
            self.push(&format!("{marks} {label}"), offset);
            if !label.is_empty() {
                self.end_line();
            }
        } else if element.role == "link" && label.is_empty() && element.reference.is_empty() {
            // Nobody can act on it.
        } else if element.role == "link" && states.is_empty() {
            self.push(&format!("[{label}]({})", element.reference), offset);
        } else if element.is(CONTROLS) {
            if element.is(INPUTS) {
                self.end_line();
                self.is_outline = true;
            }
            let quoted = if label.is_empty() { String::new() } else { format!(" {label:?}") };
            let value = if name.is_empty() || element.text.is_empty() {
                String::new()
            } else {
                format!(": {}", element.text)
            };
            let SnapshotElement { role, reference, .. } = element;
            self.push(&format!("{role} {reference}{quoted}{states}{value}"), offset);
        } else if element.is(LANDMARKS) {
            let role = &element.role;
            let quoted = if label.is_empty() { String::new() } else { format!(" {label:?}") };
            self.push(&format!("{role}{quoted}:"), offset);
        } else if !label.is_empty() && !is_repeated {
            let is_image = matches!(element.role.as_ref(), "img" | "image");
            let text = if is_image { format!("image {label:?}") } else { label.to_owned() };
            let is_cell = element.is("cell gridcell columnheader rowheader");
            self.push(&if is_cell { format!("{text} |") } else { text }, offset);
            if !name.is_empty() && !element.text.is_empty() && !element.text.contains(name) {
                self.push(&element.text, offset);
            }
        }
        if !label.is_empty() && element.role != "row" && !element.is(LANDMARKS) {
            self.names.push((element.indent, label.to_owned()));
        }
    }

    /// Adds a property of the last element: the placeholder of an input, or the address of a link
    /// without a name.
    fn add_property(&mut self, property: &SnapshotElement<'_>, offset: usize) {
        let text = property.text.as_ref();
        if property.role == "/placeholder" && !text.is_empty() {
            self.push(&format!("(placeholder {text:?})"), offset);
        } else if property.role == "/url"
            && self.line.ends_with(')')
            && let Some(at) = self.line.rfind("[](")
            && !self.line.get(at..).unwrap_or_default().contains(' ')
        {
            let address = text.split_once("//").map_or(text, |(_, rest)| rest);
            let address = address.split(['?', '&']).next().unwrap_or(address);
            let shortened: String = address.chars().take(ADDRESS_CHARACTERS).collect();
            self.line.insert_str(at + 1, &shortened);
        }
    }

    /// Adds a line that is not an element, such as the address of the page.
    fn add_text(&mut self, text: &str, offset: usize) {
        if !text.is_empty() && !text.starts_with("```") {
            self.end_line();
            self.push(text, offset);
            self.end_line();
        }
    }

    fn push(&mut self, text: &str, offset: usize) {
        if self.line.is_empty() {
            self.offset = offset;
        } else {
            self.line.push(' ');
        }
        self.line.push_str(text);
        if self.line.len() >= LINE_BYTES {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let is_outline = std::mem::take(&mut self.is_outline);
        self.row = None;
        if self.line.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.line);
        self.lines.push(SnapshotLine { text, offset: self.offset, is_outline, is_aside: false });
        let is_main = self.parts.iter().any(|(_, is_main)| *is_main);
        self.part_of_lines.push((is_main || !self.parts.is_empty()).then_some(is_main));
    }

    fn into_lines(mut self) -> Vec<SnapshotLine> {
        let has_main = self.part_of_lines.contains(&Some(true));
        for (line, part) in self.lines.iter_mut().zip(self.part_of_lines) {
            line.is_aside = if has_main { part != Some(true) } else { part == Some(false) };
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(snapshot: &str) -> Vec<String> {
        let lines = snapshot_lines(snapshot).unwrap();
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn names_and_references_of_playwright_are_kept() {
        let snapshot = r#"### Page
- Page URL: http://127.0.0.1/a
### Snapshot
```yaml
- generic [active] [ref=e1]:
  - banner [ref=e2]:
    - list [ref=e3]:
      - listitem [ref=e4]:
        - link "Home" [ref=e5] [cursor=pointer]:
          - /url: /
      - listitem [ref=e6]:
        - link [ref=e7] [cursor=pointer]:
          - /url: https://example.org/share?to=x
          - img [ref=e8]
  - main [ref=e9]:
    - 'heading "Prices: all" [level=2] [ref=e10]'
    - paragraph [ref=e11]:
      - text: "See the \"list\":"
      - link "terms" [ref=e12]:
        - /url: /terms
        - text: terms
    - textbox "Search" [ref=e13]:
      - /placeholder: What?
      - text: boots
    - checkbox "New only" [checked] [ref=e14]
    - table [ref=e15]:
      - row "Boots 20" [ref=e16]:
        - cell "Boots" [ref=e17]
        - cell "20" [ref=e18]
    - button "Send" [disabled] [ref=e19]
```
"#;
        assert_eq!(
            lines(snapshot),
            [
                "### Page",
                "- Page URL: http://127.0.0.1/a",
                "### Snapshot",
                "banner:",
                "[Home](e5) [example.org/share](e7)",
                "main:",
                "## Prices: all",
                "See the \"list\": [terms](e12)",
                "textbox e13 \"Search\" (placeholder \"What?\") boots",
                "checkbox e14 \"New only\" checked",
                "Boots | 20 |",
                "button e19 \"Send\" disabled",
            ]
        );
    }

    #[test]
    fn lines_of_chrome_devtools_are_elements() {
        let mut snapshot = "uid=1_0 RootWebArea \"Shop\" url=\"http://127.0.0.1/\"\n".to_owned();
        for at in 1..20 {
            snapshot.push_str(&format!("  uid=1_{at} link \"Item {at}\" url=\"/{at}\"\n"));
            snapshot.push_str(&format!("    uid=2_{at} StaticText \"Item {at}\"\n"));
        }
        snapshot.push_str("  uid=3_0 heading \"Cart\" level=\"1\"\n");
        let lines = lines(&snapshot);
        assert!(lines[0].starts_with("Shop [Item 1](1_1) [Item 2](1_2) "), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "# Cart");
    }

    #[test]
    fn other_lists_are_no_snapshots() {
        let list: String =
            (0..50).map(|at| format!("- name: server {at}\n  port: {at}\n")).collect();
        assert_eq!(snapshot_lines(&list), None);
        assert_eq!(snapshot_lines("- button \"Send\" [ref=e1]\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([ ]{0,4}(- |uid=)?['\"]?(link|button|heading|x)[ \"':\\\\\\[\\]=é]{0,6}\n){0,60}") {
            let _ = snapshot_lines(&text);
        }
    }
}
