//! A part, written into the halves of a result: text that models read, structured content that programs and some models read.

use std::borrow::Cow;
use std::cell::RefCell;

use serde_json::Value;

use super::{Body, Coverage, Excerpt};
use crate::json::scan::Scanner;
use crate::json::text::{Form, convert, escape, visible};
use crate::snapshot::{Cursor, Keys, Placement, Replay};
use crate::tokens::{Estimator, Measure};

/// Allowances from which the paging fields stand both beside the list and in the contract; below, a cursor is too dear to be written twice.
const MIN_FULL_NOTICE_TOKENS: u64 = 1_200;
/// Allowances, for each half, below which the contract is as brief as can be.
const MAX_BRIEF_TOKENS: u64 = 400;

/// Allowances below which the content is not sent twice.
const MAX_TEXT_ONLY_TOKENS: u64 = 440;
/// Allowances below which two cursors, one in each half, leave no room for anything but them.
const MAX_SINGLE_CURSOR_TOKENS: u64 = 220;

/// Under what a part is written.
pub struct RenderContext<'a> {
    /// How tokens are counted.
    pub estimator: Estimator,
    /// Tokens for all that the part brings along.
    pub allowance: u64,
    /// Whether it goes into the text half.
    pub text: bool,
    /// How it goes into the structured half, if it does.
    pub structured: Option<&'a Placement>,
    /// What the schema of the tool lets stand in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The live keys.
    pub keys: &'a Keys,
    /// Whose cursors these are.
    pub principal: &'a str,
    /// The name of the tool that reads on.
    pub read_tool: &'a str,
    /// The call that cursors lead back to, where nothing is kept.
    pub replay: Option<&'a Replay>,
    /// What was written last: what is found to fit is what is sent.
    pub last: RefCell<Option<RenderCache>>,
}

/// A part that was written.
pub struct RenderCache {
    excerpt: Excerpt,
    rendered: Rendered,
    /// What its text half comes to.
    text: Measure,
}

/// What the schema of a tool lets stand in structured content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaConstraint {
    /// There is no schema.
    None,
    /// Fields may stand beside a list; values must be of their types.
    AllowsExtra,
    /// Nothing but what the schema names, and the contract.
    Closed,
}

/// A part, written.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The content of a text block, escaped.
    pub text: Option<Vec<u8>>,
    /// Whole content blocks.
    pub blocks: Option<Vec<u8>>,
    /// The contract, as the last text block.
    pub notice: String,
    /// The value of `structuredContent`.
    pub structured: Option<Vec<u8>>,
    /// The cursor to what follows.
    pub cursor: Option<String>,
    /// Estimated tokens of all of it.
    pub tokens: u64,
    /// What all of it counts against the budget.
    pub cost: u64,
}

impl RenderContext<'_> {
    /// How often the same content is sent, and paid for.
    #[must_use]
    pub fn copies(&self) -> u64 {
        if self.text_alone() { 1 } else { self.sent_copies() }
    }

    fn sent_copies(&self) -> u64 {
        (u64::from(self.text) + u64::from(self.structured.is_some())).max(1)
    }

    /// How often what is said of the content is sent, and paid for: beside it in any case, and in the contract.
    #[must_use]
    pub fn notices(&self) -> u64 {
        1 + u64::from(self.structured.is_some() && !self.text_alone())
    }

    /// Whether there is no room for words.
    fn is_brief(&self) -> bool {
        self.allowance < MAX_BRIEF_TOKENS * self.sent_copies()
    }

    /// Whether there is no room for the content twice: then the structured half has the contract alone.
    fn text_alone(&self) -> bool {
        self.allowance < MAX_TEXT_ONLY_TOKENS && self.text && self.structured.is_some()
    }

    /// Whether a summary or page has to stand under the contract in structured content, since the schema would refuse it elsewhere.
    fn apart(&self, placement: &Placement, excerpt: &Excerpt) -> bool {
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

    /// Writes a part. Costs what the part is long; next to nothing where it is the one that was written last, and half of it where it says the same in other words.
    #[must_use]
    pub fn render(&self, excerpt: &Excerpt) -> Rendered {
        let mut last = self.last.borrow_mut();
        if let Some(last) = &*last
            && last.excerpt == *excerpt
        {
            return last.rendered.clone();
        }
        let alike = last.as_ref().filter(|last| last.excerpt.is_alike(excerpt));
        let (rendered, text) = self.write(excerpt, alike);
        *last = Some(RenderCache { excerpt: excerpt.clone(), rendered: rendered.clone(), text });
        rendered
    }

    /// `alike`: another part with the same text half and cursor.
    fn write(&self, excerpt: &Excerpt, alike: Option<&RenderCache>) -> (Rendered, Measure) {
        let cursor = match alike {
            Some(last) => last.rendered.cursor.clone(),
            None => excerpt.next.as_ref().map(|next| self.sign(next)),
        };
        let link =
            CursorLink { cursor: cursor.as_deref(), more: excerpt.more, read_tool: self.read_tool };
        let brief = self.is_brief();
        let mut notice = if brief {
            excerpt.coverage.brief_text(link.cursor, link.more, link.read_tool)
        } else {
            excerpt.coverage.text(
                link.cursor,
                link.more,
                link.read_tool,
                self.allowance >= MIN_FULL_NOTICE_TOKENS * self.sent_copies(),
            )
        };
        if let Some(about) = excerpt.about.as_ref().filter(|_| !brief) {
            notice =
                notice.replacen("[context-guard] ", &format!("[context-guard] Of {about}: "), 1);
        }
        if let Some(highlights) = &excerpt.highlights {
            notice.push('\n');
            notice.push_str(highlights);
        }
        let beside =
            (self.allowance >= MIN_FULL_NOTICE_TOKENS).then_some((&excerpt.coverage, link));
        let mut rendered = Rendered { notice, ..Rendered::default() };
        let text = match alike {
            Some(RenderCache {
                rendered: Rendered { text, blocks, .. }, text: measure, ..
            }) => {
                (rendered.text, rendered.blocks) = (text.clone(), blocks.clone());
                *measure
            }
            None => {
                if self.text {
                    (rendered.text, rendered.blocks) = text_half(excerpt, beside);
                }
                measure_text(&rendered, &self.estimator)
            }
        };
        rendered.structured = self.structured.map(|placement| {
            if self.text_alone() {
                return with_contract(
                    b"{}",
                    Value::Object(excerpt.coverage.brief(
                        link.cursor,
                        link.more,
                        self.allowance >= MAX_SINGLE_CURSOR_TOKENS,
                    ))
                    .to_string()
                    .as_bytes(),
                );
            }
            self.structured(
                placement,
                excerpt,
                link,
                beside.filter(|_| self.schema_constraint != SchemaConstraint::Closed),
            )
        });
        let others = [rendered.structured.as_deref(), Some(rendered.notice.as_bytes())];
        let others = others.into_iter().flatten().map(|text| self.estimator.measure(text));
        Measure { tokens: rendered.tokens, cost: rendered.cost } = others.fold(text, Measure::plus);
        if let Some(cursor) = &cursor {
            // What a cursor costs is known well: it needs less of a margin than text does.
            let count = self.sent_copies() + u64::from(beside.is_some());
            let spare = self.estimator.price(cursor.as_bytes()) * count;
            rendered.cost =
                rendered.cost.saturating_sub((spare - self.estimator.allowance(spare)) * 2 / 3);
        }
        rendered.cursor = cursor;
        (rendered, text)
    }

    fn structured(
        &self,
        placement: &Placement,
        excerpt: &Excerpt,
        link: CursorLink<'_>,
        beside: Option<(&Coverage, CursorLink<'_>)>,
    ) -> Vec<u8> {
        let mut contract = if self.is_brief() {
            excerpt.coverage.brief(link.cursor, link.more, true)
        } else {
            excerpt.coverage.structured(
                link.cursor,
                link.more,
                link.read_tool,
                beside.is_some() && !self.apart(placement, excerpt),
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
        let apart =
            |content: &[u8]| with_contract(b"{}", &with_member(&contract, "content", content));
        let wrapped = |before: &[u8], content: &[u8], form: Form, after: &[u8]| {
            let mut value = before.to_vec();
            convert(&mut value, content, form, Form::Escaped);
            value.extend_from_slice(after);
            with_contract(&value, &contract)
        };
        match (placement, &excerpt.body) {
            (Placement::Text(before, after), Body::Text(bytes, form)) => {
                wrapped(before, bytes, *form, after)
            }
            (Placement::Text(before, after), Body::Page(pieces)) => {
                wrapped(before, &pieces.beside(beside), pieces.form, after)
            }
            (Placement::Text(before, after), Body::Json(json) | Body::Summary(json)) => {
                wrapped(before, json, Form::Raw, after)
            }
            (_, Body::Page(pieces)) => {
                let mut value = Vec::new();
                if self.apart(placement, excerpt) {
                    convert(&mut value, &pieces.beside(None), pieces.form, Form::Raw);
                    return apart(&value);
                }
                convert(&mut value, &pieces.beside(beside), pieces.form, Form::Raw);
                with_contract(&value, &contract)
            }
            (Placement::Whole, Body::Json(json)) if json.first() == Some(&b'{') => {
                with_contract(json, &contract)
            }
            (_, Body::Json(json) | Body::Summary(json)) => apart(json),
            (_, Body::Text(bytes, form)) => apart(&string(bytes, *form)),
            (_, Body::Blocks(_)) => with_contract(b"{}", &contract),
        }
    }
}

/// Where a part leads to.
#[derive(Clone, Copy, Debug)]
pub struct CursorLink<'l> {
    /// The cursor.
    pub cursor: Option<&'l str>,
    /// Whether it leads on, not to the whole.
    pub more: bool,
    /// The tool that takes it.
    pub read_tool: &'l str,
}

/// `{"summary":…,"meta":{…}}` (FR-011); where room is scarce the contract alone says how to read on.
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

/// `object` with the contract as its last member.
#[must_use]
pub fn with_contract(object: &[u8], contract: &[u8]) -> Vec<u8> {
    with_member(object, "context_guard", contract)
}

/// `object` with one more member, last.
fn with_member(object: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let open = object.trim_ascii_end().strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    let comma: &[u8] = if open.ends_with(b"{") { b"" } else { b"," };
    [open, comma, b"\"", name.as_bytes(), b"\":", value, b"}"].concat()
}

/// A text block.
#[must_use]
pub fn text_block(escaped: &[u8]) -> Vec<u8> {
    [b"{\"type\":\"text\",\"text\":\"".as_slice(), escaped, b"\"}"].concat()
}

/// A text block of plain text.
#[must_use]
pub fn plain_block(text: &str) -> Vec<u8> {
    let mut escaped = Vec::new();
    escape(&mut escaped, text.as_bytes());
    text_block(&escaped)
}

/// The text half: the content of a text block, or whole content blocks. `beside`: the paging fields, where they stand there too.
fn text_half(
    excerpt: &Excerpt,
    beside: Option<(&Coverage, CursorLink<'_>)>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut text = Vec::new();
    match &excerpt.body {
        Body::Page(pieces) => {
            convert(&mut text, &pieces.beside(beside), pieces.form, Form::Escaped);
        }
        Body::Text(bytes, form) => convert(&mut text, bytes, *form, Form::Escaped),
        Body::Json(json) => escape(&mut text, json),
        Body::Summary(json) => escape(&mut text, &summary(json, beside, &excerpt.coverage)),
        Body::Blocks(blocks) => return (None, Some(blocks.clone())),
    }
    (Some(text), None)
}

/// What the text half comes to.
fn measure_text(rendered: &Rendered, estimator: &Estimator) -> Measure {
    let text = rendered
        .text
        .as_ref()
        .map_or(Measure::default(), |text| estimator.measure(&visible(text, Form::Escaped)));
    let bytes = rendered.blocks.as_deref().unwrap_or_default();
    let mut blocks = Scanner::new(bytes, Form::Raw);
    let mut sum = text;
    while let Ok(Some(block)) = blocks.next_element() {
        sum = sum.plus(estimator.measure(&block_text(bytes.get(block).unwrap_or_default())));
    }
    sum
}

/// The text of a content block as a model reads it. Images and the like have none.
#[must_use]
pub fn block_text(block: &[u8]) -> Cow<'_, [u8]> {
    let span = crate::mcp::block::text_of(block).unwrap_or(0..0);
    visible(block.get(span).unwrap_or_default(), Form::Escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_beside_a_part_is_written_as_if_it_had_been_from_the_beginning() {
        let keys = Keys::new([b"0123456789abcdef".as_slice()]).unwrap();
        let renderer = |text| RenderContext {
            estimator: Estimator::default(),
            allowance: 4_000,
            text,
            structured: Some(&Placement::Whole),
            schema_constraint: SchemaConstraint::None,
            keys: &keys,
            principal: "a",
            read_tool: "r",
            replay: None,
            last: RefCell::default(),
        };
        let coverage = |to| Coverage::Part { item: 0, total: 2, from: 0, to, bytes: 9 };
        let next = Cursor::new("snapshot", 1, 1_000);
        let part = |to, text: &str| {
            let body = Body::Text(text.as_bytes().to_vec(), Form::Escaped);
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
            let one = renderer(text);
            for part in &parts {
                assert_eq!(
                    format!("{:?}", one.render(part)),
                    format!("{:?}", renderer(text).render(part))
                );
            }
        }
    }
}
