//! A document that is no list, in fewer words: fewer fields, shorter values; or where it has no fields to choose from, a description (FR-010, FR-011).

use super::condense::{Condenser, Taste};
use super::payload::Payload;
use super::plan::Setting;
use super::render::Frame;
use super::{Body, Facts, Fields, Shown};
use crate::json::outline::Outline;
use crate::json::scan::Kind;
use crate::json::text::quoted;
use crate::query::short_list;
use crate::shape::project::names;
use crate::snapshot::Cursor;

/// Values of a document from which it is described instead: some ten megabytes of small ones.
const MOST_VALUES: usize = 700_000;

/// The summary of a document within `allowance` in all; `whole` leads to the original. None where it is no JSON object or list.
#[must_use]
pub fn of(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    whole: &Cursor,
    allowance: u64,
    frame: &Frame<'_>,
) -> Option<Shown> {
    let survey = payload.survey.filter(|survey| survey.kind != Kind::Scalar)?;
    let outline = Outline::of(payload.bytes, payload.form, &survey.root).ok()?;
    // Choosing among so many takes longer than an answer may.
    if outline.len() > MOST_VALUES {
        return described(&outline, payload, whole, allowance, frame);
    }
    let taste = Taste {
        estimator: &setting.limits.estimator,
        map: setting.limits.fields.as_ref(),
        keywords: &setting.limits.keywords,
    };
    let mut condenser = Condenser::new(&outline, taste);
    let shown = |json: Vec<u8>, fields: Fields| {
        Shown::new(Facts::Summary(fields), Some(whole.clone()), Body::Summary(json)).complete()
    };
    let empty = shown(b"{}".to_vec(), Fields { total: 1_000, ..Fields::default() });
    let mut room = allowance.saturating_sub(frame.halves(&empty).cost + 40) / frame.copies();
    for _ in 0..6 {
        let condensed = condenser.some(room)?;
        let summary = shown(condensed.values.concat(), Fields::from(&condensed));
        let cost = frame.halves(&summary).cost;
        if cost <= allowance {
            return Some(summary);
        }
        room = room.saturating_sub((cost - allowance).div_ceil(frame.copies()).max(1));
        if room == 0 {
            break;
        }
    }
    described(&outline, payload, whole, allowance, frame)
}

/// What the document is: its kind, its size, its members as far as there is room.
fn described(
    outline: &Outline<'_>,
    payload: &Payload<'_, '_>,
    whole: &Cursor,
    allowance: u64,
    frame: &Frame<'_>,
) -> Option<Shown> {
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
        let facts = Facts::Described { what, bytes: payload.bytes.len() as u64 };
        let shown = Shown::new(facts, Some(whole.clone()), Body::Summary(json)).complete();
        if frame.halves(&shown).cost <= allowance {
            return Some(shown);
        }
    }
    None
}
