//! Serving a cursor from what is kept.

use super::arguments::GuardArguments;
use crate::json::text::Form;
use crate::policy::Policy;
use crate::shape::context::{RequestOptions, ShapeContext};
use crate::shape::item::Item;
use crate::shape::list::{self, PageRequest};
use crate::shape::pricing::ExcerptPricer;
use crate::shape::range::{self, TextPosition};
use crate::shape::render::{Rendered, SchemaConstraint};
use crate::shape::{Excerpt, projected_list, transform};
use crate::snapshot::cursor::CursorError;
use crate::snapshot::index::{Body, Index, ListIndex, TextIndex};
use crate::snapshot::stored::{Entry, Loaded, Missing};
use crate::snapshot::{Cursor, Keys, Placement, Replay, Scope, StoredSnapshot};
use crate::tokens::Original;

/// Who reads, and how.
pub struct SnapshotReader<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The live keys.
    pub keys: &'a Keys,
    /// The principal.
    pub principal: &'a str,
    /// The upstream, part of the endpoint.
    pub upstream: &'a str,
    /// The endpoint that the cursor must have come from, without its upstream; none for the reading tool, which reads any of the principal's.
    pub endpoint: Option<&'a str>,
    /// Whether structured content is written too, where the original had some.
    pub structured: bool,
    /// What the schema of the tool lets stand in it.
    pub schema_constraint: SchemaConstraint,
    /// The name of the tool that reads on.
    pub read_tool: &'a str,
    /// Tokens that the caller says the answer may cost, if it does.
    pub budget: Option<u64>,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The call that cursors lead back to, where nothing is kept.
    pub replay: Option<&'a Replay>,
}

/// A part that was read.
pub struct PartRead {
    /// The part.
    pub excerpt: Excerpt,
    /// The same, written.
    pub rendered: Rendered,
    /// The endpoint that it came from, without its upstream.
    pub endpoint: String,
    /// Tokens that it might have cost.
    pub threshold: u64,
    /// Tokens of the original.
    pub original: Original,
    /// Bytes of the original.
    pub original_bytes: u64,
    /// What to keep anew.
    pub entries: Vec<Entry<'static>>,
    /// What to keep longer.
    pub extend: Vec<String>,
}

/// Why there is nothing to show.
pub enum ReadError {
    /// These keys have to be fetched first.
    Load(Vec<String>),
    /// Nothing is kept: the call has to be made again.
    Replay(Box<Cursor>, Replay),
    /// The cursor is no good.
    Cursor(CursorError),
    /// The caller asks for what cannot be; with a sentence.
    InvalidRequest(String),
}

impl From<Missing> for ReadError {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Keys(keys) => ReadError::Load(keys),
            Missing::Gone => ReadError::Cursor(CursorError::Expired),
        }
    }
}

impl SnapshotReader<'_> {
    /// Reads what `guarded.cursor` leads to. Costs what is read.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, guarded: &GuardArguments, loaded: &Loaded) -> Result<PartRead, ReadError> {
        let text = guarded.cursor.as_deref().unwrap_or_default();
        let ttl = self.ttl();
        let cursor = Cursor::verify(text, self.keys, self.principal, self.now_ms, ttl)
            .map_err(ReadError::Cursor)?;
        if let Some(endpoint) = self.endpoint {
            let endpoint = crate::endpoint(self.upstream, endpoint);
            if !self
                .keys
                .owns(Scope { principal: self.principal, endpoint: &endpoint }, &cursor.snapshot)
            {
                return Err(ReadError::Cursor(CursorError::Invalid));
            }
        }
        if let Some(replay) = cursor.replay.clone() {
            return Err(ReadError::Replay(Box::new(cursor), replay));
        }
        self.read_at(cursor, guarded, loaded)
    }

    fn ttl(&self) -> u64 {
        self.policy.settings_for(self.upstream, "").cursor_ttl_ms
    }

    /// Reads at a place that is known to be the caller's.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_at(
        &self,
        cursor: Cursor,
        guarded: &GuardArguments,
        loaded: &Loaded,
    ) -> Result<PartRead, ReadError> {
        let stored = StoredSnapshot::open(&cursor.snapshot, loaded)?;
        let limits = self.policy.settings_for(self.upstream, &stored.index.endpoint);
        let budget = limits.budget_for(guarded.options.pages, self.budget);
        let endpoint = crate::endpoint(self.upstream, &stored.index.endpoint);
        let whole = guarded.options.whole || cursor.whole > 0;
        let context = ShapeContext {
            limits: &limits,
            keys: self.keys,
            scope: Scope { principal: self.principal, endpoint: &endpoint },
            name: &stored.index.endpoint,
            arguments: 0,
            options: RequestOptions { whole, ..guarded.options },
            query: &guarded.query,
            budget: self.budget,
            is_transformed: true,
            now_ms: self.now_ms,
            read_tool: self.read_tool,
            schema_constraint: self.schema_constraint,
            replay: self.replay,
        };
        let pricer = context.pricer(
            budget.allowance(),
            true,
            stored.index.structured.as_ref().filter(|_| self.structured),
        );
        let base = Cursor::new(&cursor.snapshot, 0, self.now_ms);
        let (excerpt, rendered, transformed) = if guarded.query.is_empty() {
            let excerpt = match &stored.index.body {
                Body::List(list) => page(&stored, list, &cursor, &context, &base, &pricer)?,
                Body::Text(text) => chunk(&stored, text, &cursor, guarded.options, &base, &pricer)?,
                Body::Projected(view) => {
                    let request = page_request(&cursor, &context)?;
                    projected_list::page(&stored, view, request, &base, &pricer)?
                }
            };
            let rendered = pricer.render(&excerpt);
            (excerpt, rendered, Vec::new())
        } else {
            let (bytes, form) = match &stored.index.body {
                Body::Projected(view) => (projected_list::whole(&stored, view)?, Form::Raw),
                _ => (stored.bytes(0, stored.index.bytes)?, stored.index.form),
            };
            let from_line = guarded.options.start_line;
            let found = guarded
                .query
                .run(&bytes, form, None, &limits, from_line, &mut |_| false)
                .map_err(ReadError::InvalidRequest)?;
            // Whoever gave a cursor has it still; whoever did not, gets one.
            let whole = guarded.cursor.is_none().then_some(Cursor { whole: 1, ..base });
            let placement = pricer.context.structured.map(|_| Placement::Document);
            let cut = transform::fit(
                &context,
                &found.into(),
                whole.as_ref(),
                placement.as_ref(),
                true,
                pricer.token_limit(),
            );
            (cut.excerpt, cut.rendered, cut.entries)
        };
        let (mut entries, extend) =
            self.keep(&stored.index, &cursor.snapshot, self.ttl(), rendered.cursor.is_some());
        entries.extend(transformed);
        Ok(PartRead {
            endpoint: stored.index.endpoint.clone(),
            threshold: budget.threshold,
            original: Original {
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

    /// A cursor lives a full time from its issue: what it leads to must, too.
    fn keep(
        &self,
        index: &Index,
        snapshot: &str,
        ttl: u64,
        gives_cursor: bool,
    ) -> (Vec<Entry<'static>>, Vec<String>) {
        if !gives_cursor || index.expires_ms >= self.now_ms + ttl {
            return (Vec::new(), Vec::new());
        }
        let index = Index { expires_ms: self.now_ms + 2 * ttl, ..index.clone() };
        let entry = Entry { key: snapshot.to_owned(), value: index.to_bytes().into() };
        (vec![entry], index.keys(snapshot))
    }
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
    let (bytes, items) = list::read_items(stored, list, request, pricer.token_limit())?;
    let items = items
        .into_iter()
        .map(|(at, span)| Item::new(at, bytes.get(span).unwrap_or_default(), stored.index.form))
        .collect();
    Ok(list::show(
        list,
        stored.index.form,
        items,
        request,
        base,
        pricer,
        context.condense_options(),
    ))
}

/// The page of a list that a cursor leads to.
fn page_request(cursor: &Cursor, context: &ShapeContext<'_>) -> Result<PageRequest, ReadError> {
    let (options, limits) = (context.options, context.limits);
    if options.ranged() {
        return Err(ReadError::InvalidRequest("startLine and endLine choose lines of a text; this answer is a list: use cursor and limit".to_owned()));
    }
    let carried = if options.limit > 0 { options.limit } else { cursor.limit };
    let page_size =
        if carried > 0 { carried.min(limits.max_page_size) } else { limits.default_page_size };
    let limit = page_size.saturating_mul(options.pages.max(1));
    // A page that was condensed is read again, whole.
    let again = options.whole && cursor.whole == 0 && cursor.first > 0;
    let first = if again { cursor.first - 1 } else { cursor.offset };
    Ok(PageRequest {
        first,
        within: cursor.within,
        limit,
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
        if options.start_line > text.lines {
            return Err(ReadError::InvalidRequest(format!(
                "startLine {} is beyond the end: the text has {} lines",
                options.start_line, text.lines
            )));
        }
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
    // Never more than can fit, however long the range: a token is at most 16 bytes, and an escape at most six.
    let most = from.saturating_add(pricer.token_limit().saturating_mul(96));
    let bytes = stored.bytes(mark.offset, end.min(most))?;
    let skip = usize::try_from(from - mark.offset).unwrap_or(usize::MAX).min(bytes.len());
    let (before, mut content) = bytes.split_at_checked(skip).unwrap_or((&bytes, &[]));
    if end > most {
        let cut = crate::json::text::boundary(content, content.len(), stored.index.form);
        content = content.get(..cut).unwrap_or(content);
    }
    let line = mark.line + range::count_line_ends(before, stored.index.form);
    let range_end = (ranged || cursor.end > 0).then_some(end);
    Ok(range::show(
        text,
        content,
        stored.index.form,
        TextPosition { from, line, total, range_end },
        base,
        pricer,
    ))
}

/// The byte at which a line begins: found from the chunk that it stands in.
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
