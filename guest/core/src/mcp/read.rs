//! Serves cursors from stored snapshots: reads and renders the part to which a cursor points.

use super::arguments::GuardArguments;
use super::call_environment::CallEnvironment;
use crate::encoding::Stored;
use crate::json::text::boundary;
use crate::query::Query;
use crate::query::comparison::PreviousAnswer;
use crate::shape::context::{RequestOptions, ShapeContext};
use crate::shape::item::Item;
use crate::shape::list::PageRequest;
use crate::shape::plan::{show_items, show_lines, show_text};
use crate::shape::pricing::ExcerptPricer;
use crate::shape::range::{self, TextPosition};
use crate::shape::render::Rendered;
use crate::shape::stored_list::read_items;
use crate::shape::transform::{self, Transformed};
use crate::shape::{Excerpt, projected_list};
use crate::snapshot::cursor::{ALL_FIELDS, CursorError};
use crate::snapshot::index::{Index, ListIndex, Original, SnapshotBody, TextIndex};
use crate::snapshot::stored::{Entry, Loaded, Missing};
use crate::snapshot::{Cursor, Placement, Replay, StoredSnapshot};
use crate::tokens::OriginalCost;

/// The error message for `limit` on an answer that is a text.
const LIMIT_OF_TEXT: &str = "limit is the number of items on a page; this answer is a text: use startLine and endLine, or grep";

/// The error message for `since` with the cursor of an answer that is not stored.
const SINCE_NEEDS_STORE: &str =
    "since needs an answer in the store, and this cursor repeats its call: call without since";

/// The error message for `since` with the cursor of a call with other arguments.
const SINCE_NEEDS_SAME_CALL: &str = "since compares two answers of one call, and this cursor is of a call with other arguments, or of an error: give the cursor of an answer to these arguments, or call without since";

/// A reader that returns the parts of stored snapshots to which cursors point.
pub struct SnapshotReader<'a> {
    /// The inputs of the call that do not depend on the snapshot.
    pub call: CallEnvironment<'a>,
    /// The tool for which the cursor must have been issued, without its upstream. `None` for the
    /// read tool, which accepts every cursor of the principal.
    pub endpoint: Option<&'a str>,
    /// True if structured content is written for answers that originally had some.
    pub structured: bool,
}

/// A part of a snapshot that was read and rendered for an answer.
pub struct PartRead {
    /// The part as selected from the snapshot, before rendering.
    pub excerpt: Excerpt,
    /// The part as it is written into the result for the client.
    pub rendered: Rendered,
    /// The tool or resource whose answer the snapshot holds: `upstream::name`.
    pub endpoint: String,
    /// The name of the snapshot that holds the upstream's answer.
    pub snapshot: String,
    /// The token budget that applied to the part.
    pub threshold: u64,
    /// The estimated tokens of the upstream's answer or, for the stored result of a query, of that
    /// result.
    pub original: OriginalCost,
    /// The size in bytes of the upstream's answer or, for the stored result of a query, of that
    /// result.
    pub original_bytes: u64,
    /// Entries to store: the index of the snapshot with a new expiry, and the results of a query.
    pub entries: Vec<Entry<'static>>,
    /// The keys of stored entries whose time to live the host renews.
    pub extend: Vec<String>,
}

/// The reason why no part of a snapshot could be read.
pub enum ReadError {
    /// The store entries with these keys must be loaded first.
    Load(Vec<String>),
    /// The answer is not stored. The upstream call in the cursor must be repeated.
    Replay(Box<Cursor>, Replay),
    /// The cursor is invalid or has expired, or the data it points to is not available.
    Cursor(CursorError),
    /// The cursor of a reference in the arguments of a call cannot be served. Holds the reference.
    Reference(String, CursorError),
    /// The request does not fit the kind of snapshot. Holds a message for the caller.
    InvalidRequest(String),
}

impl From<Missing> for ReadError {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Keys(keys) => ReadError::Load(keys),
            Missing::Gone => ReadError::Cursor(CursorError::Gone),
        }
    }
}

impl SnapshotReader<'_> {
    /// Verifies `guarded.cursor`, and reads the part of the snapshot to which it points. `loaded`
    /// holds the store entries loaded so far. O(bytes read).
    ///
    /// # Errors
    /// Returns [`ReadError`] if entries are not loaded, or if the cursor or the request is invalid.
    pub fn read(&self, guarded: &GuardArguments, loaded: &Loaded) -> Result<PartRead, ReadError> {
        let text = guarded.cursor.as_deref().unwrap_or_default();
        let cursor = self.verify(text).map_err(ReadError::Cursor)?;
        if let Some(replay) = cursor.replay.clone() {
            return Err(ReadError::Replay(Box::new(cursor), replay));
        }
        self.read_at(cursor, guarded, loaded)
    }

    /// Verifies a cursor, and checks that it was issued for the tool of this call.
    pub(super) fn verify(&self, text: &str) -> Result<Cursor, CursorError> {
        let call = &self.call;
        let cursor = Cursor::verify(text, call.keys, call.principal, call.now_ms, self.ttl())?;
        match self.endpoint {
            Some(name) if !call.keys.owns(call.scope(&call.endpoint(name)), &cursor.snapshot) => {
                Err(CursorError::Invalid)
            }
            _ => Ok(cursor),
        }
    }

    /// Reads the upstream's answer to which the cursor `text` leads, for comparison with a later
    /// answer. `arguments` is a hash of the arguments of the later call, which must equal those of
    /// the earlier one. Returns `None` if the answer is no longer stored. O(answer).
    ///
    /// # Errors
    /// Returns [`ReadError`] if entries are not loaded, or if the cursor is invalid.
    pub fn previous_answer(
        &self,
        text: &str,
        arguments: u128,
        loaded: &Loaded,
    ) -> Result<Option<PreviousAnswer>, ReadError> {
        let cursor = match self.verify(text) {
            Ok(cursor) if cursor.replay.is_some() => {
                return Err(ReadError::InvalidRequest(SINCE_NEEDS_STORE.to_owned()));
            }
            Ok(cursor) => cursor,
            // After weeks, the minute in a short cursor looks like one to come.
            Err(CursorError::Expired | CursorError::Future) => return Ok(None),
            Err(error) => return Err(ReadError::Cursor(error)),
        };
        match self.digest(&cursor.snapshot, arguments, loaded) {
            Err(Missing::Keys(keys)) => Err(ReadError::Load(keys)),
            Err(Missing::Gone) => Ok(None),
            Ok(None) => Err(ReadError::InvalidRequest(SINCE_NEEDS_SAME_CALL.to_owned())),
            Ok(Some(previous)) => Ok(Some(previous)),
        }
    }

    /// Reads the upstream's answer in `snapshot`. Returns `None` if the answer is that of a call
    /// with other arguments.
    fn digest(
        &self,
        snapshot: &str,
        arguments: u128,
        loaded: &Loaded,
    ) -> Result<Option<PreviousAnswer>, Missing> {
        let named = StoredSnapshot::open(snapshot, loaded)?;
        let original = named.index.original.clone();
        let original = original.as_ref().map(|from| StoredSnapshot::open(&from.snapshot, loaded));
        let stored = original.transpose()?.unwrap_or(named);
        let bytes = stored.bytes(0, stored.index.bytes)?;
        let (is_structured, form) = (stored.index.structured.is_some(), stored.index.form);
        let endpoint = self.call.endpoint(&stored.index.endpoint);
        let (scope, content) = (self.call.scope(&endpoint), xxhash_rust::xxh3::xxh3_128(&bytes));
        if !self.call.keys.names(scope, arguments, content, stored.name) {
            return Ok(None);
        }
        let settings = &endpoint.settings;
        Ok(Some(PreviousAnswer::new(stored.name, is_structured, &bytes, form, settings)))
    }

    fn ttl(&self) -> u64 {
        self.call.policy.settings_for(self.call.upstream, "").cursor_ttl_ms
    }

    /// Reads the part of a snapshot to which a verified cursor points.
    ///
    /// # Errors
    /// Returns [`ReadError`] if entries are not loaded or have expired, or if the request is
    /// invalid.
    pub fn read_at(
        &self,
        cursor: Cursor,
        guarded: &GuardArguments,
        loaded: &Loaded,
    ) -> Result<PartRead, ReadError> {
        let named = StoredSnapshot::open(&cursor.snapshot, loaded)?;
        let query = query(&named, guarded, &cursor);
        let root = named.index.original.as_ref().map_or(named.name, |from| &from.snapshot);
        let snapshot = root.to_owned();
        let original = named.index.original.clone().filter(|_| !query.is_empty());
        let original = original.as_ref().map(|from| StoredSnapshot::open(&from.snapshot, loaded));
        let stored = original.transpose()?.unwrap_or(named);
        // One read tool serves all upstreams of a host, so only the snapshot knows its upstream.
        let call = CallEnvironment { upstream: &stored.index.upstream, ..self.call };
        let endpoint = call.endpoint(&stored.index.endpoint);
        let settings = &endpoint.settings;
        let budget = settings.budget_for(guarded.options.pages, call.budget);
        let whole = guarded.options.whole || cursor.whole > 0;
        // The next page of a selection has as many items as the one before.
        let limit = if guarded.query.is_empty() && guarded.options.limit == 0 {
            cursor.limit
        } else {
            guarded.options.limit
        };
        let options = RequestOptions { whole, limit, ..guarded.options };
        let from = Original {
            snapshot: stored.name.to_owned(),
            bytes: stored.index.bytes,
            query: query.to_bytes(),
        };
        let context = ShapeContext {
            original: Some(&from),
            ..call.shape_context(&endpoint, 0, options, &query)
        };
        let pricer = context.pricer(
            budget.allowance(),
            true,
            stored.index.structured.as_ref().filter(|_| self.structured),
        );
        let base = Cursor::new(stored.name, 0, self.call.now_ms);
        let (excerpt, rendered, transformed) = if query.is_empty() {
            let excerpt = match &stored.index.body {
                SnapshotBody::List(list) if context.options.ranged() && list.has_lines() => {
                    let bytes = stored.bytes(0, stored.index.bytes)?;
                    show_lines(&context, &bytes, stored.index.form, &base, &pricer)
                        .map_err(ReadError::InvalidRequest)?
                }
                SnapshotBody::List(list) => page(&stored, list, &cursor, &context, &base, &pricer)?,
                // A tool may be called with a limit before it is known that its answer is a text.
                SnapshotBody::Text(_) if guarded.options.limit > 0 && self.endpoint.is_none() => {
                    return Err(ReadError::InvalidRequest(LIMIT_OF_TEXT.to_owned()));
                }
                SnapshotBody::Text(text) => {
                    chunk(&stored, text, &cursor, guarded.options, &base, &pricer)?
                }
                SnapshotBody::Projected(view) => {
                    let request = page_request(&cursor, &context)?;
                    let has_all_fields = guarded.options.whole || cursor.whole == ALL_FIELDS;
                    projected_list::page(&stored, view, request, has_all_fields, &base, &pricer)?
                }
            };
            let rendered = pricer.render(&excerpt);
            (excerpt, rendered, Vec::new())
        } else {
            let (bytes, form) = (stored.bytes(0, stored.index.bytes)?, stored.index.form);
            let input = context.query_input(&bytes, form, None);
            let found = query.run(&input, &mut |_| false).map_err(ReadError::InvalidRequest)?;
            let found = Transformed::from_query(&context, found);
            // A caller without a cursor needs one to the whole.
            let whole = guarded.cursor.is_none().then_some(Cursor { whole: 1, ..base });
            let apart = found.is_apart(context.schema_constraint);
            let place = |whole: &Placement| if apart { Placement::Document } else { whole.clone() };
            let placement = pricer.context.structured.map(place);
            let cut = transform::fit(
                &context,
                &found,
                whole.as_ref(),
                placement.as_ref(),
                true,
                pricer.token_limit(),
            );
            (cut.excerpt, cut.rendered, cut.entries)
        };
        let (mut entries, extend) =
            self.renew(&stored.index, stored.name, self.ttl(), rendered.cursor.is_some());
        entries.extend(transformed);
        Ok(PartRead {
            endpoint: endpoint.full_name.clone(),
            snapshot,
            threshold: budget.threshold,
            original: OriginalCost {
                tokens: stored.index.tokens,
                cost: 0,
                sampled: stored.index.sampled,
            },
            original_bytes: stored.index.bytes,
            excerpt,
            rendered,
            entries,
            extend,
        })
    }

    /// Returns the entries to store and the keys to extend so that a snapshot outlives a new
    /// cursor. Both are empty if the answer has no cursor, or if the snapshot lives long enough.
    fn renew(
        &self,
        index: &Index,
        snapshot: &str,
        ttl: u64,
        gives_cursor: bool,
    ) -> (Vec<Entry<'static>>, Vec<String>) {
        if !gives_cursor || index.expires_ms >= self.call.now_ms + ttl {
            return (Vec::new(), Vec::new());
        }
        let index = Index { expires_ms: self.call.now_ms + 2 * ttl, ..index.clone() };
        let entry = Entry { key: snapshot.to_owned(), value: index.to_bytes().into() };
        (vec![entry], index.keys(snapshot))
    }
}

/// Returns the query to run for a request with a cursor. That is the caller's query or, with
/// `fields=all`, one that returns the complete records of a stored selection. Empty if the snapshot
/// is read without a query: the records of a projected list have the positions of the original
/// ones.
fn query(stored: &StoredSnapshot<'_>, guarded: &GuardArguments, cursor: &Cursor) -> Query {
    let is_list = matches!(stored.index.body, SnapshotBody::List(_));
    if !guarded.query.is_empty() || !guarded.options.whole || !is_list {
        return guarded.query.clone();
    }
    let original = stored.index.original.as_ref();
    let selection = original.and_then(|original| Query::from_bytes(&original.query));
    selection.and_then(|query| query.for_complete_records(cursor.offset)).unwrap_or_default()
}

fn page(
    stored: &StoredSnapshot<'_>,
    list: &ListIndex,
    cursor: &Cursor,
    context: &ShapeContext<'_>,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
) -> Result<Excerpt, ReadError> {
    let request = page_request(cursor, context)?;
    let (bytes, items) = read_items(stored, list, request, pricer.token_limit())?;
    let items = items
        .into_iter()
        .map(|(at, span)| Item::new(at, bytes.get(span).unwrap_or_default(), stored.index.form))
        .collect();
    Ok(show_items(
        list,
        stored.index.form,
        items,
        request,
        base,
        pricer,
        context.condense_options(),
    ))
}

/// Returns the request for the page of list items to which a cursor points.
fn page_request(cursor: &Cursor, context: &ShapeContext<'_>) -> Result<PageRequest, ReadError> {
    let (options, settings) = (context.options, context.limits);
    if options.ranged() {
        return Err(ReadError::InvalidRequest("startLine and endLine choose lines of a text; this answer is a list: use cursor and limit".to_owned()));
    }
    let carried = if options.limit > 0 { options.limit } else { cursor.limit };
    let page_size =
        if carried > 0 { carried.min(settings.max_page_size) } else { settings.default_page_size };
    let limit = page_size.saturating_mul(options.pages.max(1));
    // `fields=all` reads the previous page again if that page was condensed.
    let repeats_page = options.whole && cursor.whole == 0 && cursor.first > 0;
    let first = if repeats_page { cursor.first - 1 } else { cursor.offset };
    Ok(PageRequest {
        first,
        within: cursor.within,
        limit,
        max_records: context.max_records(carried),
        page_size,
        carried_limit: carried,
        whole: options.whole,
        all: false,
    })
}

fn chunk(
    stored: &StoredSnapshot<'_>,
    text: &TextIndex,
    cursor: &Cursor,
    options: RequestOptions,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
) -> Result<Excerpt, ReadError> {
    let total = stored.index.bytes;
    let ranged = options.ranged();
    let (from, end) = if ranged {
        range::check_start(options.start_line, text.lines).map_err(ReadError::InvalidRequest)?;
        let from = line_offset(stored, text, options.start_line.max(1))?;
        let end = if options.end_line == 0 {
            total
        } else {
            line_offset(stored, text, options.end_line.saturating_add(1))?
        };
        (from, end)
    } else {
        let pages = usize::try_from(options.pages.max(1)).unwrap_or(usize::MAX);
        let chunk = text.chunk_at(cursor.offset).saturating_add(pages);
        let end = text.chunks.get(chunk).map_or(total, |mark| mark.offset);
        (cursor.offset, if cursor.end > 0 { cursor.end } else { end })
    };
    let mark = text.chunks.get(text.chunk_at(from)).copied().ok_or(Missing::Gone)?;
    // Load no more than can fit, however long the range: the estimate is at least a token for 16
    // bytes, and an escaped character has at most 6 bytes.
    let max_end = from.saturating_add(pricer.token_limit().saturating_mul(96));
    let bytes = stored.bytes(mark.offset, end.min(max_end))?;
    let skip = usize::try_from(from - mark.offset).unwrap_or(usize::MAX).min(bytes.len());
    let (before, mut content) = bytes.split_at_checked(skip).unwrap_or((&bytes, &[]));
    if end > max_end {
        let cut = boundary(content, content.len(), stored.index.form);
        content = content.get(..cut).unwrap_or(content);
    }
    let line = mark.line + range::count_line_ends(before, stored.index.form);
    let range_end = (ranged || cursor.end > 0).then_some(end);
    Ok(show_text(
        text,
        content,
        stored.index.form,
        TextPosition { from, line, total, range_end },
        base,
        pricer,
    ))
}

/// Returns the byte offset at which line `line` of a stored text begins. Loads only the chunk that
/// contains the line.
fn line_offset(stored: &StoredSnapshot<'_>, text: &TextIndex, line: u64) -> Result<u64, Missing> {
    if line > text.lines {
        return Ok(stored.index.bytes);
    }
    let mark = text.before_line(line);
    let after = text
        .chunks
        .get(text.chunk_at(mark.offset) + 1)
        .map_or(stored.index.bytes, |mark| mark.offset);
    let bytes = stored.bytes(mark.offset, after)?;
    Ok(mark.offset + range::skip_lines(&bytes, stored.index.form, mark.line, line))
}
