//! A document that is no list, in fewer words: fewer fields, shorter values; or where it has no fields to choose from, a description (FR-010, FR-011).

use super::condense::{CondenseOptions, DocumentCondenser};
use super::payload::Payload;
use super::plan::ShapeContext;
use super::render::RenderContext;
use super::{Body, Coverage, Excerpt, FieldCoverage};
use crate::json::outline::Outline;
use crate::json::scan::Kind;
use crate::json::text::quoted;
use crate::query::short_list;
use crate::shape::project::names;
use crate::snapshot::Cursor;

/// Values of a document from which it is described instead: some ten megabytes of small ones.
const MAX_SUMMARIZED_VALUES: usize = 700_000;

/// The summary of a document within `allowance` in all; `whole` leads to the original. None where it is no JSON object or list.
#[must_use]
pub fn summarize(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    whole: &Cursor,
    allowance: u64,
    renderer: &RenderContext<'_>,
) -> Option<Excerpt> {
    let survey = payload.survey.filter(|survey| survey.kind != Kind::Scalar)?;
    let outline = Outline::of(payload.bytes, payload.form, &survey.root).ok()?;
    // Choosing among so many takes longer than an answer may.
    if outline.len() > MAX_SUMMARIZED_VALUES {
        return described(&outline, payload, whole, allowance, renderer);
    }
    let condense_options = CondenseOptions {
        estimator: &context.limits.estimator,
        map: context.limits.fields.as_ref(),
        keywords: &context.limits.keywords,
    };
    let mut condenser = DocumentCondenser::new(&outline, condense_options);
    let excerpt = |json: Vec<u8>, fields: FieldCoverage| {
        Excerpt::new(Coverage::Summary(fields), Some(whole.clone()), Body::Summary(json)).complete()
    };
    let empty = excerpt(b"{}".to_vec(), FieldCoverage { total: 1_000, ..FieldCoverage::default() });
    let mut room = allowance.saturating_sub(renderer.render(&empty).cost + 40) / renderer.copies();
    for _ in 0..6 {
        let condensed = condenser.some(room)?;
        let summary = excerpt(condensed.values.concat(), FieldCoverage::from(&condensed));
        let cost = renderer.render(&summary).cost;
        if cost <= allowance {
            return Some(summary);
        }
        room = room.saturating_sub((cost - allowance).div_ceil(renderer.copies()).max(1));
        if room == 0 {
            break;
        }
    }
    described(&outline, payload, whole, allowance, renderer)
}

/// What the document is: its kind, its size, its members as far as there is room.
fn described(
    outline: &Outline<'_>,
    payload: &Payload<'_, '_>,
    whole: &Cursor,
    allowance: u64,
    renderer: &RenderContext<'_>,
) -> Option<Excerpt> {
    let root = outline.node(0)?;
    let kind = if root.kind == Kind::Object { "object" } else { "list" };
    let known = names(outline, 0);
    for most in [40, 12, 4, 0] {
        let members = short_list(&known, most);
        let json = [
            format!(
                "{{\"type\":\"{kind}\",\"size\":{},\"bytes\":{},\"members\":",
                root.children,
                payload.bytes.len()
            )
            .as_bytes(),
            &quoted(&members),
            b"}",
        ]
        .concat();
        let what = format!("a JSON {kind} of {} values", root.children);
        let coverage = Coverage::Described { what, bytes: payload.bytes.len() as u64 };
        let excerpt = Excerpt::new(coverage, Some(whole.clone()), Body::Summary(json)).complete();
        if renderer.render(&excerpt).cost <= allowance {
            return Some(excerpt);
        }
    }
    None
}
