//! Summarizes a document that is not a list: fewer fields, shorter values (FR-010, FR-011).

use super::{Strategy, Task, WholePayload};
use crate::fields::mask::names;
use crate::json::outline::Outline;
use crate::json::scan::Kind;
use crate::json::text::quoted;
use crate::query::names::join_names;
use crate::shape::condense::long_text::{LongString, LongText};
use crate::shape::condense::statistics::{ListStatistics, statistics_limit};
use crate::shape::condense::{CondenseOptions, DocumentCondenser};
use crate::shape::index::max_word_bytes;
use crate::shape::payload::Payload;
use crate::shape::pricing::ExcerptPricer;
use crate::shape::{Coverage, Excerpt, ExcerptBody, FieldCoverage};
use crate::snapshot::Cursor;
use crate::text::lines::IndexedText;

/// Maximum number of values in a document that is summarized, about ten megabytes of small values.
/// Selecting the fields of a larger document would take too long.
const MAX_SUMMARIZED_VALUES: usize = 700_000;

/// Tokens reserved for field names in the result notice of a summary.
const FIELD_NAME_TOKENS: u64 = 40;

/// The share of a summary, as a divisor, that remains unused if it has long texts. The estimate for
/// a text of uncommon words may be one percent too low, and texts use all of their budget.
const TEXT_RESERVE: u64 = 50;

/// The strategy that shows the most important fields of a document, with shortened values. It
/// describes a document of too many values or fields, and one whose summaries all exceed the limit.
/// It does not apply if no field fits: the first lines of the document are then shown.
pub(super) struct Summarize;

impl Strategy for Summarize {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let whole = task.whole.as_ref().filter(|whole| whole.is_document)?;
        let (pricer, payload, limit) = (task.pricer, whole.payload, token_limit(task, whole));
        let survey = payload.survey.filter(|survey| survey.kind != Kind::Scalar)?;
        let outline = Outline::parse(payload.bytes, payload.form, &survey.root).ok()?;
        if outline.len() > MAX_SUMMARIZED_VALUES {
            return described(&outline, payload, task.base, limit, pricer);
        }
        let words = payload.words(max_word_bytes(whole.context));
        let settings = whole.context.limits;
        let options = CondenseOptions {
            estimator: &settings.estimator,
            map: settings.fields.as_ref(),
            keywords: &settings.keywords,
        };
        let strings = LongString::find(&outline);
        let lines: Vec<IndexedText<'_>> = strings.iter().map(LongString::lined).collect();
        let texts = strings.iter().zip(&lines);
        let texts: Vec<LongText<'_>> =
            texts.map(|(text, lines)| LongText::new(text, lines, &settings.estimator)).collect();
        let Some(mut condenser) = DocumentCondenser::new(&outline, options, &texts) else {
            return described(&outline, payload, task.base, limit, pricer);
        };
        let highlights = statistics(&condenser, limit, pricer);
        let excerpt = |json: Vec<u8>, fields: FieldCoverage| {
            let coverage = Coverage::Summary(fields);
            let next = Some(task.base.clone());
            let excerpt = Excerpt::new(coverage, next, ExcerptBody::Summary(json)).complete();
            Excerpt { words: words.clone(), highlights: highlights.clone(), ..excerpt }
        };
        // A total of four digits, so that the notice of no summary is longer.
        let fields = FieldCoverage { total: 1_000, ..FieldCoverage::default() };
        let fixed = pricer.cost(&excerpt(b"{}".to_vec(), fields)) + FIELD_NAME_TOKENS;
        let mut tokens = limit.saturating_sub(fixed);
        if !texts.is_empty() {
            tokens -= tokens / TEXT_RESERVE;
        }
        let mut nothing_fits = false;
        let summary = pricer.shrink(limit, tokens, |tokens| {
            let condensed = condenser.condense(tokens);
            nothing_fits = condensed.is_none();
            let condensed = condensed?;
            Some(excerpt(condensed.values.concat(), FieldCoverage::from(&condensed)))
        });
        // Where no field fits, the first lines of the document say more than its description.
        match summary {
            None if !nothing_fits => described(&outline, payload, task.base, limit, pricer),
            summary => summary,
        }
    }
}

/// Returns the statistics of the largest lists in a document, within their share of `token_limit`.
/// `None` for small limits.
fn statistics(
    condenser: &DocumentCondenser<'_, '_>,
    token_limit: u64,
    pricer: &ExcerptPricer<'_>,
) -> Option<String> {
    let limit = statistics_limit(token_limit)?;
    ListStatistics::text(condenser.statistics(), &pricer.estimator, limit)
}

/// Returns the maximum cost of a summary, in tokens. It is the token limit or, for a document that
/// fits the limit, the summary threshold of the policy.
fn token_limit(task: &Task<'_>, whole: &WholePayload<'_>) -> u64 {
    let (limit, settings) = (task.pricer.token_limit(), whole.context.limits);
    if whole.is_over_limit {
        return limit;
    }
    settings.estimator.allowance(settings.summary_threshold).min(limit)
}

/// Returns an excerpt that describes a document: its kind, its size, and as many member names as
/// fit `token_limit`. `None` if no description fits.
fn described(
    outline: &Outline<'_>,
    payload: &Payload<'_, '_>,
    whole: &Cursor,
    token_limit: u64,
    pricer: &ExcerptPricer<'_>,
) -> Option<Excerpt> {
    let root = outline.node(0)?;
    let kind = if root.kind == Kind::Object { "object" } else { "list" };
    let known = names(outline, 0);
    for most in [40, 12, 4, 0] {
        let members = join_names(&known, most);
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
        let excerpt =
            Excerpt::new(coverage, Some(whole.clone()), ExcerptBody::Summary(json)).complete();
        if pricer.cost(&excerpt) <= token_limit {
            return Some(excerpt);
        }
    }
    None
}
