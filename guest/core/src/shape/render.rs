//! A part, written into the halves of a result: text that models read, structured content that programs and some models read.

use std::borrow::Cow;

use serde_json::Value;

use super::{Body, Facts, Shown};
use crate::json::scan::Scanner;
use crate::json::text::{Form, convert, escape, visible};
use crate::snapshot::{Cursor, Home, Keys};
use crate::tokens::{Estimator, Measure};

/// Allowances from which the paging fields stand both beside the list and in the contract; below, a cursor is too dear to be written twice.
const ROOMY: u64 = 1_200;

/// Under what a part is written.
pub struct Frame<'a> {
    /// How tokens are counted.
    pub estimator: Estimator,
    /// Tokens for all that the part brings along.
    pub allowance: u64,
    /// Whether it goes into the text half.
    pub text: bool,
    /// How it goes into the structured half, if it does.
    pub structured: Option<&'a Home>,
    /// Whether the schema of the tool lets fields stand beside the list.
    pub open: bool,
    /// The live keys.
    pub keys: &'a Keys,
    /// Whose cursors these are.
    pub principal: &'a str,
    /// The name of the tool that reads on.
    pub read_tool: &'a str,
}

/// A part, written.
#[derive(Clone, Debug, Default)]
pub struct Halves {
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

impl Frame<'_> {
    /// How often the same content is sent, and paid for.
    #[must_use]
    pub fn copies(&self) -> u64 {
        (u64::from(self.text) + u64::from(self.structured.is_some())).max(1)
    }

    /// Signs a cursor.
    fn sign(&self, cursor: &Cursor) -> String {
        cursor.sign(self.keys, self.principal)
    }

    /// Writes a part. Costs what the part is long.
    #[must_use]
    pub fn halves(&self, shown: &Shown) -> Halves {
        let cursor = shown.next.as_ref().map(|next| self.sign(next));
        let cursor_text = cursor.as_deref();
        let notice = shown.facts.text(cursor_text, self.read_tool);
        let beside = (self.allowance >= ROOMY).then_some((&shown.facts, cursor_text));
        let mut halves = Halves { notice, ..Halves::default() };
        if self.text {
            match &shown.body {
                Body::Page(pieces) => {
                    let mut text = Vec::new();
                    convert(&mut text, &pieces.beside(beside), pieces.form, Form::Escaped);
                    halves.text = Some(text);
                }
                Body::Text(bytes, form) => {
                    let mut text = Vec::new();
                    convert(&mut text, bytes, *form, Form::Escaped);
                    halves.text = Some(text);
                }
                Body::Blocks(blocks) => halves.blocks = Some(blocks.clone()),
            }
        }
        halves.structured = self
            .structured
            .map(|home| self.structured(home, shown, cursor_text, beside.filter(|_| self.open)));
        Measure { tokens: halves.tokens, cost: halves.cost } = measure(&halves, &self.estimator);
        halves.cursor = cursor;
        halves
    }

    fn structured(
        &self,
        home: &Home,
        shown: &Shown,
        cursor: Option<&str>,
        beside: Option<(&Facts, Option<&str>)>,
    ) -> Vec<u8> {
        let mut contract = shown.facts.structured(cursor, self.read_tool, beside.is_some());
        let content = |bytes: &[u8], form: Form| {
            Value::from(String::from_utf8_lossy(&visible(bytes, form)).into_owned())
        };
        let value = match (home, &shown.body) {
            (Home::Text(before, after), Body::Text(bytes, form)) => {
                let mut value = before.clone();
                convert(&mut value, bytes, *form, Form::Escaped);
                value.extend_from_slice(after);
                value
            }
            (Home::Text(before, after), Body::Page(pieces)) => {
                let mut value = before.clone();
                convert(&mut value, &pieces.beside(beside), pieces.form, Form::Escaped);
                value.extend_from_slice(after);
                value
            }
            (_, Body::Page(pieces)) => {
                let mut value = Vec::new();
                convert(&mut value, &pieces.beside(beside), pieces.form, Form::Raw);
                value
            }
            (_, Body::Text(bytes, form)) => {
                contract.insert("content".to_owned(), content(bytes, *form));
                b"{}".to_vec()
            }
            (_, Body::Blocks(_)) => b"{}".to_vec(),
        };
        with_contract(&value, &Value::Object(contract))
    }
}

/// `object` with the contract as its last member.
#[must_use]
pub fn with_contract(object: &[u8], contract: &Value) -> Vec<u8> {
    let open = object.trim_ascii_end().strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    let comma: &[u8] = if open.ends_with(b"{") { b"" } else { b"," };
    [open, comma, b"\"context_guard\":", contract.to_string().as_bytes(), b"}"].concat()
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

/// Adds up what every text in the halves comes to.
fn measure(halves: &Halves, estimator: &Estimator) -> Measure {
    let mut sum = Measure::default();
    let mut add = |text: &[u8]| {
        let measure = estimator.measure(text);
        sum.tokens += measure.tokens;
        sum.cost += measure.cost;
    };
    if let Some(text) = &halves.text {
        add(&visible(text, Form::Escaped));
    }
    let bytes = halves.blocks.as_deref().unwrap_or_default();
    let mut blocks = Scanner::new(bytes, Form::Raw);
    while let Ok(Some(block)) = blocks.next_element() {
        add(&block_text(bytes.get(block).unwrap_or_default()));
    }
    if let Some(structured) = &halves.structured {
        add(structured);
    }
    add(halves.notice.as_bytes());
    sum
}

/// The text of a content block as a model reads it. Images and the like have none.
#[must_use]
pub fn block_text(block: &[u8]) -> Cow<'_, [u8]> {
    let span = crate::protocol::mcp::block::text_of(block).unwrap_or(0..0);
    visible(block.get(span).unwrap_or_default(), Form::Escaped)
}
