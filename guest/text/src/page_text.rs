//! The readable text of an HTML page: its title, headings, paragraphs, lists and tables, without
//! navigation, scripts and styles.

use super::markup::{Piece, Pieces, attributes, plain_text};

/// Elements that have no text for readers.
const SKIPPED: &[&str] = &[
    "head", "script", "style", "noscript", "nav", "footer", "aside", "svg", "button", "select",
    "iframe", "template", "dialog", "object", "canvas", "video", "audio", "map",
];
/// Words in the class, id or role of elements outside the main content.
const SKIPPED_WORDS: &[&str] = &[
    "nav",
    "navbar",
    "navigation",
    "menu",
    "sidebar",
    "footer",
    "cookie",
    "cookies",
    "breadcrumb",
    "breadcrumbs",
    "share",
    "sharing",
    "social",
    "related",
    "advertisement",
    "newsletter",
    "popup",
    "modal",
    "contentinfo",
    "complementary",
    "search",
];
/// Elements to which [`SKIPPED_WORDS`] apply. On other elements, such words often describe the
/// whole page.
const SKIPPABLE: &[&str] = &["div", "ul", "ol", "section", "header", "span", "p", "table"];
/// Elements that contain the main content.
const MAIN: &[&str] = &["main", "article"];
/// Elements that begin and end a paragraph.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "html",
    "legend",
    "li",
    "main",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "tfoot",
    "thead",
    "tr",
    "ul",
];
/// The share of all text, in tenths, from which an element is main content regardless of its class.
const SUSPECT_TENTHS: usize = 2;
/// The minimum share of all text, in tenths, of main content that is shown alone.
const MAIN_TENTHS: usize = 4;
/// The maximum length, in bytes, of a block of mostly links that is treated as navigation.
const MAX_NAVIGATION_CHARS: usize = 200;

/// The maximum length, in bytes, of a short block. Consecutive short blocks are labels of controls,
/// and are joined.
const MAX_LABEL_CHARS: usize = 30;
/// The minimum number of consecutive short blocks that are joined.
const MIN_LABELS: usize = 3;
/// The maximum length of a joined block, in characters.
const MAX_LABELS_CHARS: usize = 200;

/// A block of a page's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The byte offset in the page at which the block begins.
    pub offset: usize,
    /// The level of a heading, from 1. 0 for other text.
    pub heading: usize,
    /// The text, with a Markdown mark for headings and list items.
    pub text: String,
}

/// Returns the title and the readable text of an HTML page. Accepts any text. O(n).
#[must_use]
pub fn page_text(page: &str) -> Vec<Block> {
    let mut reader = Reader::default();
    for (offset, piece) in Pieces::new(page) {
        match piece {
            Piece::Open { name, attributes, closed } => {
                reader.open(offset, &name.to_ascii_lowercase(), attributes, closed);
            }
            Piece::Close { name } => reader.close(&name.to_ascii_lowercase()),
            Piece::Text(text) => reader.text(offset, text),
        }
    }
    reader.finish()
}

/// A block whose end was not read yet.
#[derive(Default)]
struct OpenBlock {
    offset: usize,
    /// The text, with character references not decoded.
    text: String,
    /// The number of bytes of `text` in links.
    linked: usize,
    is_cell: bool,
}

#[derive(Default)]
struct Reader {
    title: Option<Block>,
    is_title: bool,
    /// The name of the skipped element, and the number of open elements with this name.
    skipped: Option<(String, usize)>,
    /// The name of the outermost element that is probably not main content, and the number of open
    /// elements with this name.
    suspect: Option<(String, usize)>,
    /// The number of suspect elements so far.
    suspects: usize,
    /// The number of open elements of the main content.
    main: usize,
    /// The number of open links.
    links: usize,
    /// The number of open preformatted elements.
    preformatted: usize,
    heading: usize,
    is_item: bool,
    block: OpenBlock,
    blocks: Vec<ReadBlock>,
}

/// A complete block with its context.
#[derive(Clone)]
struct ReadBlock {
    block: Block,
    /// The number of bytes of the block in links.
    linked: usize,
    is_main: bool,
    /// The number of the suspect element that contains the block, from 1. 0 if there is none.
    suspect: usize,
}

impl ReadBlock {
    fn unlinked(&self) -> usize {
        self.block.text.len().saturating_sub(self.linked)
    }

    fn is_navigation(&self) -> bool {
        let length = self.block.text.len();
        self.block.heading == 0 && length <= MAX_NAVIGATION_CHARS && self.linked * 10 > length * 7
    }
}

impl Reader {
    fn open(&mut self, offset: usize, name: &str, attributes: &str, closed: bool) {
        if name == "title" && self.title.is_none() {
            self.is_title = true;
        }
        // The end tag of a head may be left out.
        let ends_head = |skipped: &(String, usize)| skipped.0 == "head" && BLOCKS.contains(&name);
        self.skipped = self.skipped.take().filter(|skipped| !ends_head(skipped));
        if let Some((skipped, open)) = &mut self.skipped {
            *open += usize::from(skipped == name && !closed);
            return;
        }
        if SKIPPED.contains(&name) {
            self.flush();
            if !closed {
                self.skipped = Some((name.to_owned(), 1));
            }
            return;
        }
        if let Some((suspect, open)) = &mut self.suspect {
            *open += usize::from(suspect == name && !closed);
        } else if !closed && is_suspect(name, attributes) {
            self.flush();
            self.suspect = Some((name.to_owned(), 1));
            self.suspects += 1;
        }
        match name {
            "a" => self.links += 1,
            "br" => self.block.text.push('\n'),
            "td" | "th" => {
                if !self.block.text.trim().is_empty() {
                    self.block.text.push_str(" | ");
                }
                self.block.is_cell = true;
            }
            // The paragraphs of a cell belong to its row.
            "p" | "div" if self.block.is_cell => self.block.text.push(' '),
            _ if !BLOCKS.contains(&name) => {}
            _ => {
                self.flush();
                self.block.offset = offset;
                self.main += usize::from(MAIN.contains(&name));
                self.preformatted += usize::from(name == "pre");
                self.is_item = name == "li" || name == "dt";
                self.heading = heading(name);
            }
        }
    }

    fn close(&mut self, name: &str) {
        if name == "title" {
            self.is_title = false;
        }
        if let Some((skipped, open)) = &mut self.skipped {
            *open -= usize::from(skipped == name);
            if *open == 0 {
                self.skipped = None;
            }
            return;
        }
        if let Some((suspect, open)) = &mut self.suspect
            && suspect == name
        {
            *open -= 1;
            if *open == 0 {
                self.flush();
                self.suspect = None;
            }
        }
        match name {
            "a" => self.links = self.links.saturating_sub(1),
            "td" | "th" => {}
            "p" | "div" if self.block.is_cell => {}
            _ if !BLOCKS.contains(&name) => {}
            _ => {
                self.flush();
                self.main -= usize::from(MAIN.contains(&name)).min(self.main);
                self.preformatted -= usize::from(name == "pre").min(self.preformatted);
            }
        }
    }

    fn text(&mut self, offset: usize, text: &str) {
        if self.is_title && self.title.is_none() {
            let text = format!("# {}", plain_text(text));
            self.title = Some(Block { offset, heading: 1, text });
        }
        if self.skipped.is_some() {
            return;
        }
        if self.block.text.is_empty() {
            self.block.offset = offset;
        }
        if self.links > 0 {
            self.block.linked += text.trim().len();
        }
        self.block.text.push_str(text);
    }

    /// Ends the current block, and adds it unless it is empty.
    fn flush(&mut self) {
        let OpenBlock { offset, text, linked, .. } = std::mem::take(&mut self.block);
        let text = if self.preformatted > 0 {
            let lines = text.trim_matches('\n').lines().map(|line| {
                let indent = line.len() - line.trim_start().len();
                format!("{}{}", " ".repeat(indent.min(16)), plain_text(line))
            });
            lines.collect::<Vec<_>>().join("\n")
        } else {
            plain_text(&text)
        };
        let (heading, is_item) = (std::mem::take(&mut self.heading), self.is_item);
        if text.trim_matches(|c: char| !c.is_alphanumeric()).is_empty() {
            return;
        }
        self.is_item = false;
        let mark = match heading {
            0 if is_item => "- ".to_owned(),
            0 => String::new(),
            level => format!("{} ", "#".repeat(level)),
        };
        let block = Block { offset, heading, text: format!("{mark}{text}") };
        let suspect = if self.suspect.is_some() { self.suspects } else { 0 };
        self.blocks.push(ReadBlock { block, linked, is_main: self.main > 0, suspect });
    }

    fn finish(mut self) -> Vec<Block> {
        self.flush();
        let all: usize = self.blocks.iter().map(ReadBlock::unlinked).sum();
        let mut suspects = vec![0; self.suspects + 1];
        for block in &self.blocks {
            if let Some(length) = suspects.get_mut(block.suspect) {
                *length += block.unlinked();
            }
        }
        let is_content = |block: &ReadBlock| {
            let length = suspects.get(block.suspect).copied().unwrap_or(0);
            block.suspect == 0 || length * 10 >= all * SUSPECT_TENTHS
        };
        let kept = |blocks: &[ReadBlock], is: &dyn Fn(&ReadBlock) -> bool, tenths: usize| {
            let length = |blocks: &[ReadBlock]| -> usize {
                blocks.iter().map(|block| block.block.text.len()).sum()
            };
            let kept: Vec<ReadBlock> = blocks.iter().filter(|block| is(block)).cloned().collect();
            if length(&kept) * 10 >= length(blocks) * tenths { kept } else { blocks.to_vec() }
        };
        let blocks = kept(&self.blocks, &is_content, 1);
        let blocks = kept(&blocks, &|block| block.is_main, MAIN_TENTHS);
        // A page of links has nothing else.
        let blocks = kept(&blocks, &|block| !block.is_navigation(), 3);
        let blocks = blocks.into_iter().map(|block| block.block).collect();
        self.title.into_iter().chain(with_joined_labels(blocks)).collect()
    }
}

/// Joins at least three consecutive short blocks, and cuts the result at [`MAX_LABELS_CHARS`].
fn with_joined_labels(blocks: Vec<Block>) -> Vec<Block> {
    let is_label = |block: &Block| {
        block.heading == 0
            && block.text.len() <= MAX_LABEL_CHARS
            && !block.text.starts_with("- ")
            && !block.text.contains(" | ")
    };
    let mut out: Vec<Block> = Vec::with_capacity(blocks.len());
    for run in blocks.chunk_by(|one, next| is_label(one) && is_label(next)) {
        match run {
            [first, ..] if run.len() >= MIN_LABELS => {
                let texts: Vec<&str> = run.iter().map(|block| block.text.as_str()).collect();
                let text = texts.join(" · ");
                let end =
                    text.char_indices().nth(MAX_LABELS_CHARS).map_or(text.len(), |(at, _)| at);
                let text = text.get(..end).unwrap_or(&text).to_owned();
                out.push(Block { text, ..first.clone() });
            }
            _ => out.extend_from_slice(run),
        }
    }
    out
}

fn heading(name: &str) -> usize {
    match name.as_bytes() {
        [b'h', level @ b'1'..=b'6'] => usize::from(level - b'0'),
        _ => 0,
    }
}

/// Returns true if an element is probably not main content.
fn is_suspect(name: &str, text: &str) -> bool {
    // Some servers put the whole page into a form.
    if name == "form" {
        return true;
    }
    if !SKIPPABLE.contains(&name) {
        return false;
    }
    attributes(text).any(|(attribute, value)| match attribute {
        "hidden" => true,
        "aria-hidden" => value == "true",
        "class" | "id" | "role" => {
            let mut words = value.split(|c: char| !c.is_ascii_alphanumeric());
            words.any(|word| SKIPPED_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<String> {
        page_text(page).into_iter().map(|block| block.text).collect()
    }

    #[test]
    fn article_is_shown_without_navigation() {
        let page = "<!doctype html><html><head><title>Tides &amp; times</title><style>p{}</style></head>\
            <body><nav><ul><li><a href=/>Home</a><li><a href=/a>About</a></ul></nav>\
            <main><h1>High tide</h1><p>The tide is <b>high</b> at noon,<br>and low at night.</p>\
            <ul><li>Monday: 12:01</li><li>Tuesday: 12:51</li></ul>\
            <table><tr><th>Day<th>Height</tr><tr><td>Monday</td><td><p>3.1 m</p></td></tr></table>\
            <pre>one\n  two &lt;3</pre></main>\
            <div class=\"site-footer\"><p>Imprint and a text.</p></div>\
            <script>if (a < b) document.write('<p>no</p>')</script></body></html>";
        assert_eq!(
            texts(page),
            [
                "# Tides & times",
                "# High tide",
                "The tide is high at noon, and low at night.",
                "- Monday: 12:01",
                "- Tuesday: 12:51",
                "Day | Height",
                "Monday | 3.1 m",
                "one\n  two <3",
            ]
        );
    }

    #[test]
    fn heads_without_end_and_pages_in_a_form_have_their_text() {
        let text = "<p>A long text that somebody wrote for readers.</p>";
        for page in [
            format!("<html><head><title>T</title><body>{text}"),
            format!("<head><title>T</title></head><body><form id=page>{text}</form></body>"),
        ] {
            assert_eq!(texts(&page), ["# T", "A long text that somebody wrote for readers."]);
        }
    }

    #[test]
    fn pages_without_main_element_have_their_text() {
        let page = "<div><div id=menu><a href=1>One</a></div><div><p>A long text that somebody \
            wrote for readers.</p><div><a href=2>Next</a></div></div></div>";
        assert_eq!(texts(page), ["A long text that somebody wrote for readers."]);
    }

    #[test]
    fn pages_of_links_have_their_links() {
        let page = "<table><tr><td><a href=1>A story about ships</a></td></tr><tr><td>\
            <a href=2>Another story</a></td></tr></table>";
        assert_eq!(texts(page), ["A story about ships", "Another story"]);
    }

    #[test]
    fn offsets_lead_to_the_blocks() {
        let page = "<body>\n<h2>One</h2>\n<p>Two</p></body>";
        for block in page_text(page) {
            let word = block.text.trim_start_matches(['#', ' ']).to_owned();
            assert!(
                page.split_at(block.offset).1.find(&word).is_some_and(|at| at < 12),
                "{block:?}"
            );
        }
    }
}
