//! Transformations of a payload: query results, sorted lists, stripped documents.
//!
//! The transformed payload is reduced like any other. The upstream's original is stored too.

use super::content_block::block_text;
use super::context::{RequestOptions, ShapeContext};
use super::index::{has_room_around, payload_index};
use super::payload::Payload;
use super::plan::{ShapedPayload, shape_payload};
use super::pricing::ExcerptPricer;
use super::render::SchemaConstraint;
use super::strip::{columns, strip};
use super::{Coverage, Excerpt, ExcerptBody, projected_list};
use crate::encoding::Stored;
use crate::fields::minify;
use crate::json::edit::Edits;
use crate::json::locate_lists::DocumentInfo;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::{Kind, Scanner, is_json};
use crate::json::text::{Form, quoted, visible};
use crate::policy::{EndpointSettings, OrderBy};
use crate::query::QueryResult;
use crate::query::records::{RecordSet, record_list};
use crate::query::values::{compare_values, split_path, values_at};
use crate::snapshot::index::{Original, ProjectedList};
use crate::snapshot::stored::{Entry, entries};
use crate::snapshot::{Cursor, Placement};
use crate::tokens::OriginalCost;

/// The result of a query by the caller, or of a transformation that policy configures.
pub struct Transformed {
    /// The result: unescaped JSON, or text.
    pub bytes: Vec<u8>,
    /// True if `bytes` are text, false if they are JSON.
    pub text: bool,
    /// The coverage to report if `bytes` are sent whole.
    pub coverage: Coverage,
    /// True if the caller requested exactly this data by a query, so that it must not be condensed.
    pub is_requested: bool,
    /// True if the result has the structure of the original document, and can replace the original
    /// in structured content.
    pub is_in_place: bool,
    /// The keys from the root of `bytes` to the list of records. `None` if they are unknown.
    pub list_keys: Option<Vec<String>>,
    /// The number of bytes before the document, which are words.
    pub document_start: usize,
    /// True if the values still match the output schema of the tool.
    pub keeps_types: bool,
    /// The list of selected fields whose first page is in `bytes`. `None` if there is no later
    /// page.
    pub list_page: Option<ProjectedList>,
}

impl Transformed {
    /// Converts the result of the caller's query. A list of records remains inside the document
    /// around it, if that is small enough to repeat on every page.
    #[must_use]
    pub fn from_query(context: &ShapeContext<'_>, found: QueryResult) -> Self {
        let query = context.query;
        let envelope = found
            .envelope
            .filter(|around| has_room_around(context, around.before.len() + around.after.len()));
        let is_in_place = envelope.as_ref().is_some_and(|around| !around.is_applied());
        let bytes = match &envelope {
            // The first records of a projection are put on a page later.
            Some(around) if found.partial.is_none() => around.wrap(&found.bytes),
            _ => found.bytes,
        };
        Self {
            bytes,
            text: found.is_text,
            coverage: Coverage::Found { what: found.description },
            is_requested: true,
            is_in_place,
            list_keys: envelope.map(|around| around.keys),
            document_start: 0,
            keeps_types: is_in_place && query.fields.is_none(),
            list_page: None,
        }
    }

    /// Runs the caller's query on a payload. Selected fields of a list end where they would exceed
    /// `token_limit`. If the query fails, the text states the reason, and the call does not become
    /// an error.
    #[must_use]
    pub fn by_query(
        context: &ShapeContext<'_>,
        payload: &Payload<'_, '_>,
        token_limit: u64,
    ) -> Self {
        let texts = payload.blocks.then(|| blocks(payload.bytes));
        let (bytes, form) =
            texts.as_deref().map_or((payload.bytes, payload.form), |bytes| (bytes, Form::Raw));
        let survey = payload.survey.filter(|survey| !payload.blocks && !survey.is_lines);
        let list = survey.and_then(|survey| record_list(survey, context.limits));
        // A token has three or more bytes in most JSON, so shorter results probably fit. Pricing
        // again only after the size has doubled keeps the total cost linear.
        let mut next = token_limit * 4;
        let mut enough = |chosen: &[u8]| {
            if list.is_none() || !context.limits.pagination || (chosen.len() as u64) < next {
                return false;
            }
            next = next.saturating_mul(2);
            context.limits.estimator.cost(chosen) > token_limit
        };
        let input = context.query_input(bytes, form, survey);
        match context.query.run(&input, &mut enough) {
            Ok(found) => {
                let part = found.partial.clone().zip(list);
                let envelope = found.envelope.clone();
                let transformed = Self::from_query(context, found);
                let envelope = envelope.filter(|_| transformed.is_in_place);
                let list_page = part.map(|(part, list)| {
                    ProjectedList::new(context, payload, list, part, envelope.as_ref())
                });
                Self { list_page, ..transformed }
            }
            Err(reason) => {
                let what = format!("nothing, because {reason}");
                Self::from_query(context, QueryResult::new(b"{}".to_vec(), false, what))
            }
        }
    }

    /// Compares a payload with the earlier answer that the caller names. `None` if the caller names
    /// none, or if the answers cannot be compared. The answer is then reduced as usual.
    #[must_use]
    pub fn by_comparison(
        context: &ShapeContext<'_>,
        payload: &Payload<'_, '_>,
        cost: OriginalCost,
        placement: Option<&Placement>,
    ) -> Option<Self> {
        let since = context.since.filter(|since| since.is_structured == placement.is_some())?;
        if payload.blocks {
            return None;
        }
        let (snapshot, _) = payload_index(context, payload, cost, placement.cloned());
        let found = since.compare(&snapshot, payload.bytes, payload.form, context.limits)?;
        Some(Self::from_query(context, found))
    }

    /// Returns true if the transformed payload cannot replace the original in structured content,
    /// so that it goes into `context_guard`. `constraint` is derived from the tool's output schema.
    #[must_use]
    pub fn is_apart(&self, constraint: SchemaConstraint) -> bool {
        !self.is_in_place || (!self.keeps_types && constraint != SchemaConstraint::None)
    }

    /// Returns true if the caller requests fewer items than the list of records has. `survey` has
    /// the lists of the result.
    fn exceeds_limit(&self, context: &ShapeContext<'_>, survey: Option<&DocumentInfo>) -> bool {
        let Some(survey) = survey.filter(|_| context.options.limit > 0) else { return false };
        let keys = self.list_keys.as_deref().unwrap_or_default();
        let list = survey.lists.iter().find(|list| list.path == keys);
        list.is_some_and(|list| list.items.len() as u64 > context.first_page().limit)
    }

    /// Returns the context in which to reduce the transformed payload. Requested data is not
    /// condensed. The requested line range is removed, because it refers to the original.
    fn context<'s>(&self, context: &ShapeContext<'s>) -> ShapeContext<'s> {
        let whole = context.options.whole || self.is_requested;
        let options = RequestOptions { whole, start_line: 0, end_line: 0, ..context.options };
        ShapeContext { options, ..*context }
    }

    /// Adds the description of the query result to its excerpt, if the excerpt then still fits the
    /// token limit.
    fn name_source(
        &self,
        shaped: ShapedPayload<'static>,
        pricer: &ExcerptPricer<'_>,
    ) -> ShapedPayload<'static> {
        match &self.coverage {
            Coverage::Found { what } => shaped.named(what, pricer),
            _ => shaped,
        }
    }

    /// Creates a document in which JSON replaces a string that contained it. Words of
    /// `document_start` bytes precede the document.
    #[must_use]
    pub fn without_string(bytes: Vec<u8>, document_start: usize) -> Self {
        Self {
            bytes,
            text: false,
            coverage: Coverage::Lossless { what: "with the JSON in a string as values".to_owned() },
            is_requested: false,
            is_in_place: true,
            list_keys: None,
            document_start,
            keeps_types: false,
            list_page: None,
        }
    }

    /// Applies the transformations that policy configures, such as sorting. `None` if they change
    /// nothing, and for texts, JSON Lines, content blocks and payloads that were transformed
    /// already.
    #[must_use]
    pub fn by_policy(context: &ShapeContext<'_>, payload: &Payload<'_, '_>) -> Option<Self> {
        let limits = context.limits;
        if !limits.transforms_answers() {
            return None;
        }
        let survey = payload.survey.filter(|survey| {
            let is_document = survey.kind != Kind::Scalar && !survey.is_lines;
            is_document && !payload.blocks && context.original.is_none()
        })?;
        let mut bytes = visible(payload.bytes.get(survey.root.clone())?, payload.form).into_owned();
        let mut done = Vec::new();
        if let Some(order) = &limits.order_by
            && let Some(sorted) = sorted(&bytes, order, limits)
        {
            bytes = sorted;
            done.push("sorted");
        }
        if !limits.strip.is_empty() || !limits.strip_fields.is_empty() {
            let outline = Outline::parse(&bytes, Form::Raw, &(0..bytes.len())).ok()?;
            let stripped = strip(&outline, &limits.strip, &limits.strip_fields);
            if stripped.len() < minify(&bytes).len() {
                bytes = stripped;
                done.push("without what says nothing");
            }
        }
        let token_limit = limits.budget_for(context.options.pages, context.budget).allowance();
        if limits.compact && limits.estimator.cost(&bytes) > token_limit {
            let outline = Outline::parse(&bytes, Form::Raw, &(0..bytes.len())).ok()?;
            let several = outline.node(0).is_some_and(|root| root.children > 1);
            // Rows cannot be paged. If they do not fit, the list is paged in its original form.
            let fits = |rows: &Vec<u8>| {
                several && limits.estimator.cost(rows) <= limits.budget(1).allowance() / 2
            };
            if let Some(rows) = columns(&outline, 0).filter(fits) {
                bytes = rows;
                done.push("as a header and rows");
            }
        }
        let (what, keeps_types) = (done.join(", "), done == ["sorted"]);
        let words = payload.words(usize::MAX);
        let bytes = [words.before.as_slice(), &bytes, &words.after].concat();
        (!done.is_empty()).then_some(Self {
            bytes,
            text: false,
            coverage: Coverage::Lossless { what },
            is_requested: false,
            is_in_place: true,
            list_keys: None,
            document_start: words.before.len(),
            keeps_types,
            list_page: None,
        })
    }
}

/// Returns the texts of MCP content blocks as a JSON array. Texts that are JSON become JSON values.
fn blocks(content: &[u8]) -> Vec<u8> {
    // The scanner reads elements after the opening bracket.
    let inner = content.trim_ascii_start().strip_prefix(b"[").unwrap_or(content);
    let mut scanner = Scanner::new(inner, Form::Raw);
    let mut texts = Vec::new();
    while let Ok(Some(block)) = scanner.next_element() {
        let text = block_text(inner.get(block).unwrap_or_default(), false).into_owned();
        texts.push(if is_json(&text, Form::Raw) {
            text
        } else {
            quoted(&String::from_utf8_lossy(&text))
        });
    }
    [b"[".as_slice(), &texts.join(&b','), b"]"].concat()
}

/// Returns a JSON document with its list of records sorted by `order`. `None` if it has no such
/// list, or no record has the field to sort by.
fn sorted(bytes: &[u8], order: &OrderBy, limits: &EndpointSettings) -> Option<Vec<u8>> {
    let records = RecordSet::locate(bytes, limits).filter(|records| records.is_list)?;
    let keys = split_path(&order.field);
    let mut items: Vec<(Option<String>, NodeId)> = records
        .ids
        .iter()
        .map(|id| (values_at(&records.outline, *id, &keys).into_iter().next(), *id))
        .collect();
    if items.iter().all(|(value, _)| value.is_none()) {
        return None;
    }
    // The sort is stable: equal items keep the upstream's order. Items without the field come last.
    items.sort_by(|(left, _), (right, _)| match (left, right) {
        (Some(left), Some(right)) => {
            let found = compare_values(left, right);
            if order.descending { found.reverse() } else { found }
        }
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => std::cmp::Ordering::Equal,
    });
    let mut edits = Edits::default();
    for (place, (_, item)) in records.ids.iter().zip(&items) {
        let (place, item) = (whole_span(&records, *place)?, whole_span(&records, *item)?);
        edits.replace(place, bytes.get(item)?);
    }
    Some(edits.apply(bytes))
}

/// Returns the span of a value in the document. The span of a string includes its quotes.
fn whole_span(records: &RecordSet<'_>, id: NodeId) -> Option<crate::json::Span> {
    let node = records.outline.node(id)?;
    let quote = usize::from(node.kind == Kind::String);
    Some(node.span.start - quote..node.span.end + quote)
}

/// Returns a reference to the payload as the upstream sent it, a cursor to it, and the snapshot
/// entries to store. `placement` is the payload's position in structured content, or `None` if it
/// is text content.
#[must_use]
pub fn store_original<'a>(
    context: &ShapeContext<'_>,
    payload: &Payload<'a, '_>,
    cost: OriginalCost,
    placement: Option<Placement>,
) -> (Original, Cursor, Vec<Entry<'a>>) {
    let (snapshot, index) = payload_index(context, payload, cost, placement);
    let whole = Cursor { whole: 1, ..Cursor::new(&snapshot, 0, context.now_ms) };
    let entries = entries(&snapshot, &index, payload.bytes);
    let query = match context.query.is_empty() {
        true => Vec::new(),
        false => context.query.to_bytes(),
    };
    (Original { snapshot, bytes: payload.bytes.len() as u64, query }, whole, entries)
}

/// Reduces a transformed payload to `token_limit`. `whole` is a cursor to the original, or `None`
/// if the caller has one already. The excerpt goes into text content if `text`, and into structured
/// content if `placement` is given.
#[must_use]
pub fn fit(
    context: &ShapeContext<'_>,
    transformed: &Transformed,
    whole: Option<&Cursor>,
    placement: Option<&Placement>,
    text: bool,
    token_limit: u64,
) -> ShapedPayload<'static> {
    let survey = (!transformed.text).then(|| {
        let start = transformed.document_start;
        DocumentInfo::read(&mut Scanner::starting_at(&transformed.bytes, Form::Raw, start)).ok()
    });
    let survey = survey.flatten();
    let payload = Payload {
        bytes: &transformed.bytes,
        form: Form::Raw,
        survey: survey.as_ref(),
        ends: None,
        blocks: false,
    };
    let cost = OriginalCost::estimate(&context.limits.estimator, &transformed.bytes, Form::Raw);
    let pricer = context.pricer(token_limit, text, placement);
    let excerpt = || {
        let body = match transformed.text {
            true => ExcerptBody::Text(transformed.bytes.clone(), Form::Raw),
            false => ExcerptBody::Json(transformed.bytes.clone()),
        };
        Excerpt::new(transformed.coverage.clone(), whole.cloned(), body).complete()
    };
    let unchanged = |excerpt| {
        let rendered = pricer.render(&excerpt);
        ShapedPayload { excerpt, rendered, entries: Vec::new(), whole: None }
    };
    let mut cost = cost;
    let fits = cost.cost <= token_limit;
    if transformed.is_requested && fits && !transformed.exceeds_limit(context, survey.as_ref()) {
        let excerpt = excerpt();
        // With a small limit, the notice may leave no room for content that fits by itself.
        if pricer.fits(&excerpt) {
            return unchanged(excerpt);
        }
        cost.cost = token_limit + 1;
    }
    // The list that policy names is that of the original. A query names the list of its result,
    // however little of the document that is.
    let limits = transformed.is_requested.then(|| EndpointSettings {
        items_path: transformed.list_keys.clone(),
        ..context.limits.clone()
    });
    let limits = limits.as_ref().unwrap_or(context.limits);
    let context = ShapeContext { limits, ..transformed.context(context) };
    match shape_payload(&context, &payload, cost, placement.cloned(), text, token_limit) {
        Some(shaped) => {
            let pricer = context.pricer(token_limit, text, placement);
            transformed.name_source(shaped.into_owned(), &pricer)
        }
        None => unchanged(excerpt()),
    }
}

/// Returns the first page of `list_page`, a list of selected fields with more pages. `payload` is
/// the original, and `cost` its cost.
#[must_use]
pub fn fit_page(
    transformed: &Transformed,
    list_page: ProjectedList,
    payload: &Payload<'_, '_>,
    cost: OriginalCost,
    context: &ShapeContext<'_>,
    pricer: &ExcerptPricer<'_>,
) -> ShapedPayload<'static> {
    let context = transformed.context(context);
    let shaped =
        projected_list::first(&context, pricer, payload, cost, list_page, &transformed.bytes);
    transformed.name_source(shaped, pricer)
}
