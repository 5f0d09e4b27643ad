//! Rendering: an excerpt, written as text content and structured content of a result.
//!
//! Text content is what models read. Structured content is what programs and some models read. Each
//! has the content of the excerpt, and a notice that says what is missing and how to get it.

use serde_json::Value;

use super::{Coverage, Excerpt, ExcerptBody};
use crate::json::text::{Form, convert, escape};
use crate::snapshot::{Cursor, Keys, Placement, Replay};

/// Minimum limit, in tokens, for paging fields beside a list as well as in the notice. Below it a
/// cursor costs too much to be written twice.
const MIN_FULL_NOTICE_TOKENS: u64 = 1_200;
/// Limit, in tokens for each copy, below which notices are brief.
const MAX_BRIEF_TOKENS: u64 = 400;
/// Limit, in tokens, below which content is not sent twice.
const MAX_TEXT_ONLY_TOKENS: u64 = 440;
/// Limit, in tokens, below which two cursors leave no room for counts.
const MAX_SINGLE_CURSOR_TOKENS: u64 = 220;

/// Everything besides the excerpt that determines the rendering.
pub struct RenderContext<'a> {
    /// The tokens that the rendering may cost. Small limits get brief notices.
    pub token_limit: u64,
    /// If true, the excerpt is written as text content.
    pub text: bool,
    /// The place of the excerpt in structured content, if it is written there.
    pub structured: Option<&'a Placement>,
    /// The members that the tool's output schema accepts in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The live keys, which sign cursors.
    pub keys: &'a Keys,
    /// The principal that cursors are bound to.
    pub principal: &'a str,
    /// The name of the tool that reads the rest.
    pub read_tool: &'a str,
    /// The call that cursors repeat, if the answer is not stored.
    pub replay: Option<&'a Replay>,
}

/// The members that the output schema of a tool accepts in structured content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaConstraint {
    /// Any: the tool has no output schema.
    None,
    /// Additional members. Named members must have their types.
    AllowsExtra,
    /// Only the members that the schema names, and the guard's own.
    Closed,
}

/// An excerpt as it is sent.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The text of one text block, JSON-escaped.
    pub text: Option<Vec<u8>>,
    /// Whole content blocks, separated by commas.
    pub blocks: Option<Vec<u8>>,
    /// The result notice, for the last text block.
    pub notice: String,
    /// The value of `structuredContent`.
    pub structured: Option<Vec<u8>>,
    /// The signed cursor.
    pub cursor: Option<String>,
    /// The estimated tokens of all parts.
    pub tokens: u64,
}

impl RenderContext<'_> {
    /// The number of times that the content is sent, and paid for.
    #[must_use]
    pub fn copies(&self) -> u64 {
        if self.is_text_only() { 1 } else { self.targets() }
    }

    /// The number of times that text about the content is sent: in the notice, and in structured
    /// content if the content is there too.
    #[must_use]
    pub fn notices(&self) -> u64 {
        1 + u64::from(self.structured.is_some() && !self.is_text_only())
    }

    /// The number of times that a cursor is written.
    pub(super) fn cursor_copies(&self) -> u64 {
        self.targets() + u64::from(self.has_paging_fields())
    }

    /// The number of parts of the result that the excerpt goes into.
    pub(super) fn targets(&self) -> u64 {
        (u64::from(self.text) + u64::from(self.structured.is_some())).max(1)
    }

    /// Returns true if paging fields are written beside a list too.
    fn has_paging_fields(&self) -> bool {
        self.token_limit >= MIN_FULL_NOTICE_TOKENS
    }

    /// Returns true if there is no room for full notices.
    fn is_brief(&self) -> bool {
        self.token_limit < MAX_BRIEF_TOKENS * self.targets()
    }

    /// Returns true if there is no room for two copies: structured content gets the metadata alone.
    fn is_text_only(&self) -> bool {
        self.token_limit < MAX_TEXT_ONLY_TOKENS && self.text && self.structured.is_some()
    }

    /// Returns true if the content must be a member of `context_guard`, because the output schema
    /// would reject it in its own place.
    fn is_nested(&self, placement: &Placement, excerpt: &Excerpt) -> bool {
        *placement == Placement::Document
            || (matches!(excerpt.coverage, Coverage::Page { condensed: Some(_), .. })
                && self.schema_constraint != SchemaConstraint::None)
    }

    /// Signs a cursor.
    #[must_use]
    pub fn sign(&self, cursor: &Cursor) -> String {
        match self.replay {
            None => cursor.sign(self.keys, self.principal),
            Some(replay) => Cursor { replay: Some(replay.clone()), ..cursor.clone() }
                .sign(self.keys, self.principal),
        }
    }

    /// Writes an excerpt. `known` is the rendering of an excerpt with the same content and cursor,
    /// whose text is used again. O(excerpt).
    pub(super) fn render(&self, excerpt: &Excerpt, known: Option<Rendered>) -> Rendered {
        let reuse = known.is_some();
        let known = known.unwrap_or_default();
        let cursor = match reuse {
            true => known.cursor,
            false => excerpt.next.as_ref().map(|next| self.sign(next)),
        };
        let link =
            CursorLink { cursor: cursor.as_deref(), more: excerpt.more, read_tool: self.read_tool };
        let beside = self.has_paging_fields().then_some((&excerpt.coverage, link));
        let (text, blocks) = match reuse {
            true => (known.text, known.blocks),
            false if self.text => text_content(excerpt, beside),
            false => (None, None),
        };
        let notice = self.notice(excerpt, link);
        let structured =
            self.structured.map(|placement| self.structured(placement, excerpt, link, beside));
        Rendered { text, blocks, notice, structured, cursor, tokens: 0 }
    }

    /// The notice of an excerpt, with its highlights.
    fn notice(&self, excerpt: &Excerpt, link: CursorLink<'_>) -> String {
        let CursorLink { cursor, more, read_tool } = link;
        let mut notice = if self.is_brief() {
            excerpt.coverage.brief_text(cursor, more, read_tool)
        } else {
            let roomy = self.token_limit >= MIN_FULL_NOTICE_TOKENS * self.targets();
            excerpt.coverage.text(cursor, more, read_tool, roomy)
        };
        if let Some(about) = excerpt.about.as_ref().filter(|_| !self.is_brief()) {
            notice =
                notice.replacen("[context-guard] ", &format!("[context-guard] Of {about}: "), 1);
        }
        if let Some(highlights) = &excerpt.highlights {
            notice.push('\n');
            notice.push_str(highlights);
        }
        notice
    }

    /// The structured content of an excerpt.
    fn structured(
        &self,
        placement: &Placement,
        excerpt: &Excerpt,
        link: CursorLink<'_>,
        beside: Option<(&Coverage, CursorLink<'_>)>,
    ) -> Vec<u8> {
        if self.is_text_only() {
            let counts = self.token_limit >= MAX_SINGLE_CURSOR_TOKENS;
            let brief = excerpt.coverage.brief(link.cursor, link.more, counts);
            return with_contract(b"{}", Value::Object(brief).to_string().as_bytes());
        }
        let beside = beside.filter(|_| self.schema_constraint != SchemaConstraint::Closed);
        let mut contract = if self.is_brief() {
            excerpt.coverage.brief(link.cursor, link.more, true)
        } else {
            excerpt.coverage.structured(
                link.cursor,
                link.more,
                link.read_tool,
                beside.is_some() && !self.is_nested(placement, excerpt),
            )
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
            convert(&mut value, content, form, Form::Escaped);
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

/// A signed cursor, and what it leads to.
#[derive(Clone, Copy, Debug)]
pub struct CursorLink<'l> {
    /// The signed cursor.
    pub cursor: Option<&'l str>,
    /// True if it leads to the rest; false if it leads to the whole.
    pub more: bool,
    /// The tool that takes it.
    pub read_tool: &'l str,
}

/// `{"summary":…,"meta":{…}}` (FR-011). Without paging fields, only the notice says how to read on.
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

/// Appends the metadata to an object, as its last member `context_guard`.
#[must_use]
pub fn with_contract(object: &[u8], contract: &[u8]) -> Vec<u8> {
    with_member(object, "context_guard", contract)
}

/// Appends a member to an object.
fn with_member(object: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let open = object.trim_ascii_end().strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    let comma: &[u8] = if open.ends_with(b"{") { b"" } else { b"," };
    [open, comma, b"\"", name.as_bytes(), b"\":", value, b"}"].concat()
}

/// The text content of an excerpt: the text of one block, or whole blocks. `beside` are the paging
/// fields, if they are written beside a list too.
fn text_content(
    excerpt: &Excerpt,
    beside: Option<(&Coverage, CursorLink<'_>)>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut text = Vec::new();
    match &excerpt.body {
        ExcerptBody::Page(pieces) => {
            convert(&mut text, &pieces.beside(beside), pieces.form, Form::Escaped);
        }
        ExcerptBody::Text(bytes, form) => convert(&mut text, bytes, *form, Form::Escaped),
        ExcerptBody::Json(json) => escape(&mut text, json),
        ExcerptBody::Summary(json) => escape(&mut text, &summary(json, beside, &excerpt.coverage)),
        ExcerptBody::Blocks(blocks) => return (None, Some(blocks.clone())),
    }
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
                    schema_constraint: SchemaConstraint::None,
                    keys: &keys,
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
