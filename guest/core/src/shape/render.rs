//! Rendering: writes an excerpt as text content and structured content of the result for the
//! client.
//!
//! Most models read text content. Programs and some models read structured content. One of them has
//! the content of the excerpt, or both if a copy fits the token limit. Each has a notice that
//! states the omitted parts and how to read them.

use serde_json::Value;

use super::notice::NEXT_CURSOR;
use super::{Coverage, Excerpt, ExcerptBody};
use crate::encoding::CursorFormat;
use crate::json::text::{Form, convert, escape};
use crate::policy::{ShownLimits, VisibleContent};
use crate::snapshot::{Cursor, Keys, Placement, Replay};
use crate::text::line_breaks::without_line_breaks;

/// Minimum token limit for repeating the cursor in the result metadata of structured content, which
/// also has it next to the list. Notices then have more field names and examples.
const MIN_FULL_NOTICE_TOKENS: u64 = 1_200;
/// Token limit below which result notices are brief.
const MAX_BRIEF_TOKENS: u64 = 400;
/// Token limit below which structured content that lacks the excerpt omits the counts of items, to
/// make room for the cursor.
const MAX_SINGLE_CURSOR_TOKENS: u64 = 220;

/// The settings of a call that determine how excerpts are rendered in the result for the client.
pub struct RenderContext<'a> {
    /// The maximum cost of a rendered excerpt, in tokens. Small limits lead to brief notices.
    pub token_limit: u64,
    /// True if the excerpt is written into text content.
    pub text: bool,
    /// The position in `structuredContent` at which the excerpt is written. `None` if it is not
    /// written there.
    pub structured: Option<&'a Placement>,
    /// The content that the client shows to its model, if the excerpt can go into both.
    pub visible: VisibleContent,
    /// The maximum cost of the whole answer, in tokens.
    pub answer_limit: u64,
    /// The limits of the client for what it shows of the whole answer.
    pub shown: ShownLimits,
    /// True if the cursor is repeated before the content, because the client cuts the end of long
    /// results.
    pub cuts_end: bool,
    /// The members that the tool's output schema accepts in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The currently valid keys, which sign cursors.
    pub keys: &'a Keys,
    /// The format of cursors.
    pub cursor_format: CursorFormat,
    /// The principal to which cursors are bound, so that no other caller can use them.
    pub principal: &'a str,
    /// The name of the guard's tool that a client calls with a cursor to read the rest.
    pub read_tool: &'a str,
    /// The upstream call that a cursor repeats to get the answer again. `None` if the answer is
    /// stored.
    pub replay: Option<&'a Replay>,
}

/// The members that a tool's output schema accepts in structured content. They limit the ways to
/// write an excerpt there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaConstraint {
    /// Any members: the tool has no output schema.
    None,
    /// The schema's members, with their declared types, and any additional members.
    AllowsExtra,
    /// Only the members that the schema names, and `context_guard`, which the guard added to the
    /// schema.
    Closed,
}

/// An excerpt as it is written into the result for the client.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The JSON-escaped text of one text block. `None` if the excerpt consists of whole content
    /// blocks, or goes into structured content only.
    pub text: Option<Vec<u8>>,
    /// The content blocks of an excerpt that consists of whole blocks, separated by commas.
    pub blocks: Option<Vec<u8>>,
    /// The cursor before the content, for a client that may cut the end. Empty for other clients.
    pub heading: String,
    /// The result notice, appended to the last text block: which parts are missing and how to read
    /// them.
    pub notice: String,
    /// The new value of `structuredContent`. `None` if the excerpt is not written to structured
    /// content.
    pub structured: Option<Vec<u8>>,
    /// The signed form of the excerpt's cursor, if it has one.
    pub cursor: Option<String>,
    /// The estimated tokens of text, blocks, heading, notice and structured content together,
    /// without the content that the client does not show to its model.
    pub tokens: u64,
}

impl RenderContext<'_> {
    /// Returns the number of copies of quoted lines that the budget pays for: one in the notice,
    /// and one in structured content if the excerpt is written there only.
    #[must_use]
    pub fn notices(&self) -> u64 {
        let is_repeated = self.structured.is_some() && !self.has_both();
        1 + u64::from(is_repeated)
    }

    /// Returns true if the result has both text content and structured content.
    fn has_both(&self) -> bool {
        self.text && self.structured.is_some()
    }

    /// Returns true if the budget pays for text content: the client's model sees it.
    pub(super) fn pays_for_text(&self) -> bool {
        !self.has_both() || self.visible != VisibleContent::Structured
    }

    /// Returns true if the budget pays for structured content: the client's model sees it.
    pub(super) fn pays_for_structured(&self) -> bool {
        !self.has_both() || self.visible != VisibleContent::Text
    }

    /// Returns true if text content has the excerpt, not only the result notice.
    fn has_text(&self) -> bool {
        self.text && self.pays_for_text()
    }

    /// Returns true if text content has the excerpt although there is structured content.
    fn prefers_text(&self) -> bool {
        self.has_both() && self.pays_for_text()
    }

    /// Returns true if the token limit is large enough for repeated metadata.
    fn is_full(&self) -> bool {
        self.token_limit >= MIN_FULL_NOTICE_TOKENS
    }

    /// Returns true if text content has paging fields next to a list. They are omitted under the
    /// smallest limits if structured content also holds the cursor only.
    fn has_paging_fields(&self, link: CursorLink<'_>) -> bool {
        let bytes = link.cursor.map_or(0, str::len) as u64;
        !self.prefers_text() || bytes * 2 <= self.token_limit
    }

    /// Returns true if the notice repeats a cursor that text content has next to the list. Each
    /// token of a cursor encodes one or two bytes.
    fn repeats(&self, cursor: &str) -> bool {
        cursor.len() as u64 * 3 <= self.token_limit
    }

    /// Returns true if the token limit is so small that result notices use their brief form.
    fn is_brief(&self) -> bool {
        self.token_limit < MAX_BRIEF_TOKENS
    }

    /// Returns true if the client may show both contents. Text content then has the excerpt, and
    /// structured content a copy of it if that fits. Excerpts are selected without regard to the
    /// copy, which would halve them. Most clients that show one content show text.
    pub(super) fn may_copy(&self) -> bool {
        self.has_both() && self.visible == VisibleContent::Both
    }

    /// Returns true if structured content must hold the excerpt inside its member `context_guard`,
    /// because the tool's output schema would reject it at `placement`.
    fn is_nested(&self, placement: &Placement, excerpt: &Excerpt) -> bool {
        *placement == Placement::Document
            || (matches!(excerpt.coverage, Coverage::Page { condensed: Some(_), .. })
                && self.schema_constraint != SchemaConstraint::None)
    }

    /// Returns the cursor as an opaque string, signed for the principal. If the answer is not
    /// stored, the string includes the upstream call to repeat.
    #[must_use]
    pub fn sign(&self, cursor: &Cursor) -> String {
        self.of_call(cursor).sign(self.cursor_format, self.keys, self.principal)
    }

    /// Returns a placeholder for the text of a cursor: [`Cursor::placeholder`].
    pub(super) fn placeholder(&self, cursor: &Cursor) -> String {
        self.of_call(cursor).placeholder(self.cursor_format)
    }

    /// Returns the cursor, with the upstream call to repeat if the answer is not stored.
    fn of_call(&self, cursor: &Cursor) -> Cursor {
        let replay = self.replay.cloned().or_else(|| cursor.replay.clone());
        Cursor { replay, ..cursor.clone() }
    }

    /// Renders an excerpt for the result, with `cursor` as the text of its cursor. `known` is an
    /// earlier rendering with the same content and cursor, whose text and blocks are reused.
    /// `is_copied` is true if both contents have the excerpt. O(excerpt).
    pub(super) fn render(
        &self,
        excerpt: &Excerpt,
        cursor: Option<String>,
        known: Option<Rendered>,
        is_copied: bool,
    ) -> Rendered {
        let reuse = known.is_some();
        let known = known.unwrap_or_default();
        let link =
            CursorLink { cursor: cursor.as_deref(), more: excerpt.more, read_tool: self.read_tool };
        let beside = self.has_paging_fields(link).then_some((&excerpt.coverage, link));
        let (text, blocks) = match reuse {
            true => (known.text, known.blocks),
            false if self.has_text() => text_content(excerpt, beside, self.is_full()),
            false => (None, None),
        };
        let is_beside = self.has_text()
            && beside.is_some()
            && link.more
            && matches!(excerpt.body, ExcerptBody::Page(_));
        let repeated = cursor.as_deref().filter(|cursor| !is_beside || self.repeats(cursor));
        let named = cursor.as_ref().map(|_| repeated.unwrap_or(NEXT_CURSOR));
        let notice = self.notice(excerpt, CursorLink { cursor: named, ..link });
        let heading = self.heading(excerpt, link);
        let is_metadata = self.prefers_text() && !is_copied;
        let structured = self.structured.map(|placement| match is_metadata {
            true => self.without_content(placement, excerpt, link),
            false => self.structured(placement, excerpt, link),
        });
        Rendered { text, blocks, heading, notice, structured, cursor, tokens: 0 }
    }

    /// Returns the shortest notice with the cursor, for a client that cuts the end of long results.
    /// Empty for other clients, and for short results.
    fn heading(&self, excerpt: &Excerpt, link: CursorLink<'_>) -> String {
        let is_lossless = matches!(excerpt.coverage, Coverage::Lossless { .. });
        let is_shown = self.cuts_end && self.has_text() && !self.is_brief() && !is_lossless;
        match link.cursor.filter(|cursor| is_shown && self.repeats(cursor)) {
            Some(cursor) => excerpt.coverage.brief_text(Some(cursor), link.more, link.read_tool),
            None => String::new(),
        }
    }

    /// Returns the result notice for an excerpt, followed by the excerpt's highlights.
    fn notice(&self, excerpt: &Excerpt, link: CursorLink<'_>) -> String {
        let CursorLink { cursor, more, read_tool } = link;
        let mut notice = if self.is_brief() {
            excerpt.coverage.brief_text(cursor, more, read_tool)
        } else {
            let roomy = self.is_full();
            excerpt.coverage.text(cursor, more, read_tool, roomy)
        };
        if let Some(about) = excerpt.about.as_ref().filter(|_| !self.is_brief()) {
            notice =
                notice.replacen("[context-guard] ", &format!("[context-guard] Of {about}: "), 1);
        }
        notice = without_line_breaks(notice);
        if let Some(highlights) = &excerpt.highlights {
            notice.push('\n');
            notice.push_str(highlights);
        }
        notice
    }

    /// Returns the value of `structuredContent` for an excerpt in text content: the members around
    /// the text, and the result metadata. A hint states how to read the excerpt with a client that
    /// shows no text.
    fn without_content(
        &self,
        placement: &Placement,
        excerpt: &Excerpt,
        link: CursorLink<'_>,
    ) -> Vec<u8> {
        let counts = self.token_limit >= MAX_SINGLE_CURSOR_TOKENS;
        let mut metadata = excerpt.coverage.brief(link.cursor, link.more, counts);
        if self.pays_for_structured() && !self.is_brief() {
            // A cursor that repeats the call reads the next part only.
            let is_stored = self.replay.is_none()
                && excerpt.next.as_ref().is_some_and(|next| next.replay.is_none());
            let way = is_stored.then(|| excerpt.coverage.way_to_read(link.more));
            let call = way.map(|way| format!(", or call {} with {way}", self.read_tool));
            let note = format!("See the text of this result{}.", call.unwrap_or_default());
            metadata.insert("note".to_owned(), note.into());
        }
        let around = match placement {
            Placement::Text(before, after) => [before.as_slice(), after].concat(),
            Placement::Whole | Placement::Document => b"{}".to_vec(),
        };
        with_contract(&around, Value::Object(metadata).to_string().as_bytes())
    }

    /// Renders an excerpt of a payload that remains unchanged in text content, with `cursor` as the
    /// text of the excerpt's cursor. The result has no notice, because the text is complete.
    pub(super) fn beside_text(&self, excerpt: &Excerpt, cursor: Option<String>) -> Rendered {
        let read_tool = self.read_tool;
        let link = CursorLink { cursor: cursor.as_deref(), more: excerpt.more, read_tool };
        let placement = self.structured;
        let structured = placement.map(|placement| self.without_content(placement, excerpt, link));
        Rendered { structured, cursor, ..Rendered::default() }
    }

    /// Returns the value of `structuredContent` for an excerpt. Adds paging fields next to the list
    /// if the output schema allows it.
    fn structured(
        &self,
        placement: &Placement,
        excerpt: &Excerpt,
        link: CursorLink<'_>,
    ) -> Vec<u8> {
        let beside = (self.schema_constraint != SchemaConstraint::Closed)
            .then_some((&excerpt.coverage, link));
        let is_beside = matches!(excerpt.body, ExcerptBody::Page(_))
            && beside.is_some()
            && !self.is_nested(placement, excerpt);
        let cursor = link.cursor.filter(|_| !is_beside || !link.more || self.is_full());
        let mut contract = if self.is_brief() {
            excerpt.coverage.brief(cursor, link.more, true)
        } else {
            excerpt.coverage.structured(cursor, link.more, link.read_tool, is_beside)
        };
        if let Some(highlights) = &excerpt.highlights {
            contract.insert("highlights".to_owned(), highlights.as_str().into());
        }
        let contract = Value::Object(contract).to_string().into_bytes();
        let string = |bytes: &[u8], form: Form| {
            let mut value = b"\"".to_vec();
            convert(&mut value, bytes, form, Form::Escaped);
            value.push(b'"');
            value
        };
        let nested =
            |content: &[u8]| with_contract(b"{}", &with_member(&contract, "content", content));
        let wrapped = |before: &[u8], content: &[u8], form: Form, after: &[u8]| {
            let mut value = before.to_vec();
            escape(&mut value, &excerpt.words.before);
            convert(&mut value, content, form, Form::Escaped);
            escape(&mut value, &excerpt.words.after);
            value.extend_from_slice(after);
            with_contract(&value, &contract)
        };
        match (placement, &excerpt.body) {
            (Placement::Text(before, after), ExcerptBody::Text(bytes, form)) => {
                wrapped(before, bytes, *form, after)
            }
            (Placement::Text(before, after), ExcerptBody::Page(pieces)) => {
                wrapped(before, &pieces.beside(beside), pieces.form, after)
            }
            (
                Placement::Text(before, after),
                ExcerptBody::Json(json) | ExcerptBody::Summary(json),
            ) => wrapped(before, json, Form::Raw, after),
            (_, ExcerptBody::Page(pieces)) => {
                let mut value = Vec::new();
                if self.is_nested(placement, excerpt) {
                    convert(&mut value, &pieces.beside(None), pieces.form, Form::Raw);
                    return nested(&value);
                }
                convert(&mut value, &pieces.beside(beside), pieces.form, Form::Raw);
                with_contract(&value, &contract)
            }
            (Placement::Whole, ExcerptBody::Json(json)) if json.first() == Some(&b'{') => {
                with_contract(json, &contract)
            }
            (_, ExcerptBody::Json(json) | ExcerptBody::Summary(json)) => nested(json),
            (_, ExcerptBody::Text(bytes, form)) => nested(&string(bytes, *form)),
            (_, ExcerptBody::Blocks(_)) => with_contract(b"{}", &contract),
        }
    }
}

/// A signed cursor, with the information about it that a result notice needs.
#[derive(Clone, Copy, Debug)]
pub struct CursorLink<'l> {
    /// The signed cursor. `None` if there is nothing else to read.
    pub cursor: Option<&'l str>,
    /// True if the cursor leads to the rest of the payload, false if it leads to the whole payload.
    pub more: bool,
    /// The name of the tool that accepts the cursor as an argument.
    pub read_tool: &'l str,
}

/// Returns the text content of a summary, `{"summary":…,"meta":{…}}` (FR-011). `json` is the
/// summarized document. If `beside` is `None`, `meta` does not state how to read the rest, because
/// the notice does.
fn summary(
    json: &[u8],
    beside: Option<(&Coverage, CursorLink<'_>)>,
    coverage: &Coverage,
) -> Vec<u8> {
    let mut meta = match beside {
        Some((coverage, link)) => coverage.json(None, link.more, link.read_tool),
        None => coverage.json(None, false, ""),
    };
    for name in ["shown", "total", "omitted", "loss"] {
        meta.remove(name);
    }
    if beside.is_none() {
        meta.remove("projectedFields");
        meta.remove("detailsAvailable");
    }
    [
        b"{\"summary\":".as_slice(),
        json,
        b",\"meta\":",
        Value::Object(meta).to_string().as_bytes(),
        b"}",
    ]
    .concat()
}

/// Returns the JSON `object` with the result metadata `contract` added as its last member,
/// `context_guard`.
#[must_use]
pub fn with_contract(object: &[u8], contract: &[u8]) -> Vec<u8> {
    with_member(object, "context_guard", contract)
}

/// Returns the JSON `object` with a member added at its end. `value` is the JSON of the member's
/// value.
fn with_member(object: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let open = object.trim_ascii_end().strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    let comma: &[u8] = if open.ends_with(b"{") { b"" } else { b"," };
    [open, comma, b"\"", name.as_bytes(), b"\":", value, b"}"].concat()
}

/// Returns the text content of an excerpt: the escaped text of one block, or else whole content
/// blocks. If `beside` is given, adds paging fields next to a list, and in a summary if `full`.
fn text_content(
    excerpt: &Excerpt,
    beside: Option<(&Coverage, CursorLink<'_>)>,
    full: bool,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut text = Vec::new();
    escape(&mut text, &excerpt.words.before);
    match &excerpt.body {
        ExcerptBody::Page(pieces) => {
            convert(&mut text, &pieces.beside(beside), pieces.form, Form::Escaped);
        }
        ExcerptBody::Text(bytes, form) => convert(&mut text, bytes, *form, Form::Escaped),
        ExcerptBody::Json(json) => escape(&mut text, json),
        ExcerptBody::Summary(json) => {
            let beside = beside.filter(|_| full);
            escape(&mut text, &summary(json, beside, &excerpt.coverage));
        }
        ExcerptBody::Blocks(blocks) => return (None, Some(blocks.clone())),
    }
    escape(&mut text, &excerpt.words.after);
    (Some(text), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::pricing::ExcerptPricer;
    use crate::tokens::Estimator;

    #[test]
    fn reused_text_renders_like_new_text() {
        let keys = Keys::new([b"0123456789abcdef".as_slice()]).unwrap();
        let pricer = |text| {
            ExcerptPricer::new(
                Estimator::default(),
                RenderContext {
                    token_limit: 4_000,
                    text,
                    structured: Some(&Placement::Whole),
                    visible: VisibleContent::Both,
                    answer_limit: 4_000,
                    shown: ShownLimits::default(),
                    cuts_end: false,
                    schema_constraint: SchemaConstraint::None,
                    keys: &keys,
                    cursor_format: CursorFormat::Short,
                    principal: "a",
                    read_tool: "r",
                    replay: None,
                },
            )
        };
        let coverage = |to| Coverage::Part { item: 0, total: 2, from: 0, to, bytes: 9 };
        let next = Cursor::new("snapshot", 1, 1_000);
        let part = |to, text: &str| {
            let body = ExcerptBody::Text(text.as_bytes().to_vec(), Form::Escaped);
            Excerpt::new(coverage(to), Some(next.clone()), body)
        };
        let of = |about: &str, part: Excerpt| Excerpt { about: Some(about.to_owned()), ..part };
        let and =
            |words: &str, part: Excerpt| Excerpt { highlights: Some(words.to_owned()), ..part };
        let parts = [
            part(4, r"a\nb"),
            and("errors", part(4, r"a\nb")),
            of("x", and("other errors", part(4, r"a\nb"))),
            part(4, r"a\nc"),
            part(5, r"a\nc"),
            Excerpt { next: None, ..part(5, r"a\nc") },
            part(5, r"a\nc").complete(),
        ];
        for text in [true, false] {
            let one = pricer(text);
            for part in &parts {
                assert_eq!(
                    format!("{:?}", one.render(part)),
                    format!("{:?}", pricer(text).render(part))
                );
            }
        }
    }
}
