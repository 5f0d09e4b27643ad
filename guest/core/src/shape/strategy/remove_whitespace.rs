//! Shows the whole document, without the white space between its tokens.

use super::{Strategy, Task};
use crate::fields::minify;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::{Kind, is_json};
use crate::json::text::{Form, visible};
use crate::shape::payload::Payload;
use crate::shape::{Coverage, Excerpt, ExcerptBody};
use crate::snapshot::Cursor;
use crate::snapshot::index::Words;

/// Sample size, in bytes, for detecting pretty-printed lists.
const WHITESPACE_SAMPLE_BYTES: usize = 1_024;

/// The description of a minified document in the result notice.
const WITHOUT_SPACE: &str = "without white space between its values";

/// The strategy that shows the whole document without insignificant white space, if that makes it
/// fit.
pub(super) struct RemoveWhitespace;

impl Strategy for RemoveWhitespace {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let whole = task.whole.as_ref().filter(|whole| whole.is_over_limit)?;
        // A list of more items than a page holds is paged, however short it is.
        let most = whole.context.first_page().max_records_shown();
        if task.list().is_some_and(|list| list.index.total() > most) {
            return None;
        }
        let payload = whole.payload;
        payload.survey.filter(|survey| survey.kind != Kind::Scalar && !payload.blocks)?;
        // Most tokens have at most 16 bytes. Beyond 48 bytes a token, two thirds would have to be
        // white space.
        if payload.bytes.len() as u64 > task.pricer.token_limit().saturating_mul(48)
            || !has_excess_whitespace(payload)
        {
            return None;
        }
        let root = payload.survey.map_or(0..payload.bytes.len(), |survey| survey.root.clone());
        let raw = visible(payload.bytes.get(root)?, payload.form);
        // White space may be removed between tokens only, so the tokens must be valid.
        if !is_json(&raw, Form::Raw) {
            return None;
        }
        let minified = minify(&raw);
        // Less than a tenth is not worth the pricing.
        if minified.len() * 10 > raw.len() * 9 {
            return None;
        }
        let words = payload.words(usize::MAX);
        let excerpt = whole_document(ExcerptBody::Json(minified), words, task.base);
        task.pricer.fits(&excerpt).then_some(excerpt)
    }
}

/// Returns an excerpt that shows the whole document as `body`. Its cursor `original` leads to the
/// document as the upstream sent it.
pub(in crate::shape) fn whole_document(
    body: ExcerptBody,
    words: Words,
    original: &Cursor,
) -> Excerpt {
    let coverage = Coverage::Lossless { what: WITHOUT_SPACE.to_owned() };
    Excerpt { words, ..Excerpt::new(coverage, Some(original.clone()), body).complete() }
}

/// Returns true if the largest list of a document begins pretty-printed. Also returns true if no
/// list makes up most of the document.
fn has_excess_whitespace(payload: &Payload<'_, '_>) -> bool {
    let list = payload.survey.and_then(DocumentInfo::longest);
    let Some(list) = list.filter(|list| list.span.len() * 4 >= payload.bytes.len() * 3) else {
        return true;
    };
    let Some((first, last)) = list.items.first().zip(list.items.last()) else { return true };
    let far = list
        .items
        .iter()
        .find(|item| item.end >= first.start + WHITESPACE_SAMPLE_BYTES)
        .unwrap_or(last);
    let raw = visible(payload.bytes.get(first.start..far.end).unwrap_or_default(), payload.form);
    minify(&raw).len() * 20 < raw.len() * 19
}
