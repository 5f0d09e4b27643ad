//! The settings of one endpoint, with all defaults.

use super::client_profile::{ClientProfile, ShownLimits, VisibleContent};
use super::document::{Advertise, CursorMode, ItemFields, OrderBy, Settings, Strip};
use crate::encoding::CursorFormat;
use crate::fields::Mask;
use crate::tokens::{Budget, Estimator};

/// The minimum token budget that a caller can request: enough for an excerpt with its result
/// notice.
const MIN_BUDGET_TOKENS: u64 = 200;

/// The settings of one endpoint: defaults, policy settings and matching rules combined.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSettings {
    /// True if the endpoint's answers are shaped, false if they pass through unchanged.
    pub shape: bool,
    /// True if long lists may be divided into pages.
    pub pagination: bool,
    /// True if long texts may be divided into chunks.
    pub chunking: bool,
    /// The number of items on a page, unless a caller requests another.
    pub default_page_size: u64,
    /// True if policy sets the number of items on a page, so that this number is exact. Otherwise a
    /// page grows to fill the budget.
    pub has_exact_pages: bool,
    /// The maximum number of items that a caller may request with `limit`. Also the maximum number
    /// of records to which a page grows.
    pub max_page_size: u64,
    /// The token budget of an answer, unless a caller requests more pages or another budget.
    pub threshold: u64,
    /// The maximum token budget of an answer. If `enforce_hard_cap` is false, it limits only the
    /// budgets that callers request.
    pub hard_cap: u64,
    /// True if the hard cap also limits an answer of several pages or chunks, and one that policy
    /// exempts from paging or chunking.
    pub enforce_hard_cap: bool,
    /// The maximum number of lines in a chunk of a text.
    pub chunk_size: u64,
    /// The number of tokens above which a text is divided into chunks.
    pub chunk_threshold: u64,
    /// True if policy sets the size or threshold of chunks, so that both are exact. Otherwise a
    /// chunk grows to fill the budget, and a text that fits is one chunk (FR-020).
    pub has_exact_chunks: bool,
    /// The keys from the document to the list of its records, if the policy names them.
    pub items_path: Option<Vec<String>>,
    /// The order in which list items are shown, if the policy names one.
    pub order_by: Option<OrderBy>,
    /// True if payloads that do not fit may be condensed: fewer fields, shorter values.
    pub summarization: bool,
    /// The number of tokens above which a single object is summarized.
    pub summary_threshold: u64,
    /// The fields that a summary keeps, if the policy names them.
    pub fields: Option<Mask>,
    /// Words whose sentences are kept when a text is shortened.
    pub keywords: Vec<String>,
    /// The kinds of members that are removed from every answer.
    pub strip: Vec<Strip>,
    /// The names of members that are removed from every answer.
    pub strip_fields: Vec<String>,
    /// True if lists of uniform records may be written as rows.
    pub compact: bool,
    /// The content of results that the client shows to its model. `None` if the client's profile
    /// decides.
    pub visible_content: Option<VisibleContent>,
    /// The name of the client whose profile applies to all clients. None if each client's own does.
    pub client_profile: Option<String>,
    /// The limits of the client for what it shows of a result.
    pub shown: ShownLimits,
    /// The limits of the client for what it shows of a result that is an error.
    pub shown_errors: ShownLimits,
    /// True if the client shows the beginning of results that exceed a limit, and cuts the rest.
    pub cuts_end: bool,
    /// True if the first chunk of a text is sent with highlights of the rest.
    pub highlights: bool,
    /// The paths, in an item, of its id, title and other members that response modes use.
    pub item_fields: ItemFields,
    /// The number of characters in the preview of a record.
    pub preview_chars: usize,
    /// True if the policy declares the tool read-only, false if it declares the opposite. `None` if
    /// the policy does not set it; the tool's own hint then decides.
    pub read_only: Option<bool>,
    /// True if calls with truncation marks in their arguments are refused.
    pub refuse_marks: bool,
    /// True if references in the arguments of calls are replaced by stored values.
    pub references: bool,
    /// The maximum size of the values by which the references of a call are replaced, in bytes.
    pub max_reference_bytes: u64,
    /// Patterns of the endpoints of other upstreams whose answers references may name.
    pub references_from: Vec<String>,
    /// The lifetime of a cursor in milliseconds.
    pub cursor_ttl_ms: u64,
    /// The source of the rest of an answer: the store, or a repeated upstream call.
    pub cursor_mode: CursorMode,
    /// The format of cursors to stored answers.
    pub cursor_format: CursorFormat,
    /// The estimator of token counts.
    pub estimator: Estimator,
    /// The detail in which the guard's arguments are added to the input schemas of tools.
    pub advertise: Advertise,
    /// True if unprefixed arguments such as `limit` are the guard's, on tools whose schema the
    /// guard has not seen.
    pub plain_arguments: bool,
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            shape: true,
            pagination: true,
            chunking: true,
            default_page_size: 50,
            has_exact_pages: false,
            max_page_size: 200,
            threshold: 4_000,
            hard_cap: 12_000,
            enforce_hard_cap: true,
            chunk_size: 200,
            chunk_threshold: 2_000,
            has_exact_chunks: false,
            items_path: None,
            order_by: None,
            summarization: true,
            summary_threshold: 2_000,
            fields: None,
            keywords: Vec::new(),
            strip: Vec::new(),
            strip_fields: Vec::new(),
            compact: false,
            visible_content: None,
            client_profile: None,
            shown: ShownLimits::default(),
            shown_errors: ShownLimits::default(),
            cuts_end: false,
            highlights: true,
            item_fields: ItemFields::default(),
            preview_chars: 200,
            read_only: None,
            refuse_marks: true,
            references: true,
            max_reference_bytes: 4 << 20,
            references_from: Vec::new(),
            cursor_ttl_ms: 600_000,
            cursor_mode: CursorMode::default(),
            cursor_format: CursorFormat::default(),
            estimator: Estimator::default(),
            advertise: Advertise::default(),
            plain_arguments: false,
        }
    }
}

impl EndpointSettings {
    /// Returns true if a single object of `tokens` tokens is summarized although it fits the
    /// budget.
    #[must_use]
    pub fn summarizes(&self, tokens: u64) -> bool {
        self.summarization && tokens > self.summary_threshold
    }

    /// Returns the settings for the client with this name in `clientInfo`, or for the client that
    /// policy sets instead. The token budgets are lowered to the part of a result that the client
    /// shows. The client's profile also sets the visible content, unless policy sets it. Unknown
    /// clients get the settings unchanged.
    #[must_use]
    pub fn for_client(mut self, name: &str) -> Self {
        let name = self.client_profile.as_deref().unwrap_or(name);
        let Some(profile) = ClientProfile::find(name) else { return self };
        self.visible_content.get_or_insert(profile.visible);
        // JSON has about three bytes a token. Denser text is limited by its bytes.
        let most_of_bytes = profile.shown_limits(false).bytes.map(|bytes| bytes / 3);
        for most in [profile.max_tokens, most_of_bytes].into_iter().flatten() {
            self.threshold = self.threshold.min(most);
            self.hard_cap = self.hard_cap.min(most);
        }
        self.shown = profile.shown_limits(false);
        self.shown_errors = profile.shown_limits(true);
        self.cuts_end = profile.cuts_end;
        self
    }

    /// Returns true if these settings may change a JSON answer before it is reduced. All but
    /// `compact` also change answers within the budget.
    pub(crate) fn transforms_answers(&self) -> bool {
        !self.strip.is_empty()
            || !self.strip_fields.is_empty()
            || self.order_by.is_some()
            || self.compact
    }

    /// Overwrites each setting for which `settings` has a value.
    pub(super) fn apply_overrides(&mut self, settings: &Settings) {
        fn set<T: Clone>(target: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                target.clone_from(value);
            }
        }
        set(&mut self.shape, settings.shape.as_ref());
        set(&mut self.pagination, settings.pagination.as_ref());
        set(&mut self.chunking, settings.chunking.as_ref());
        set(&mut self.default_page_size, settings.default_page_size.as_ref());
        self.has_exact_pages |= settings.default_page_size.is_some();
        set(&mut self.max_page_size, settings.max_page_size.as_ref());
        set(&mut self.threshold, settings.token_budget_threshold.as_ref());
        set(&mut self.hard_cap, settings.hard_cap.as_ref());
        set(&mut self.enforce_hard_cap, settings.enforce_hard_cap.as_ref());
        set(&mut self.chunk_size, settings.chunk_size.as_ref());
        set(&mut self.chunk_threshold, settings.chunk_threshold.as_ref());
        self.has_exact_chunks |=
            settings.chunk_size.is_some() || settings.chunk_threshold.is_some();
        set(&mut self.summarization, settings.summarization.as_ref());
        set(&mut self.summary_threshold, settings.summary_threshold.as_ref());
        set(&mut self.keywords, settings.keywords.as_ref());
        set(&mut self.strip, settings.strip.as_ref());
        set(&mut self.strip_fields, settings.strip_fields.as_ref());
        set(&mut self.compact, settings.compact.as_ref());
        set(&mut self.highlights, settings.highlights.as_ref());
        set(&mut self.item_fields, settings.item_fields.as_ref());
        set(&mut self.refuse_marks, settings.refuse_marks.as_ref());
        set(&mut self.references, settings.references.as_ref());
        set(&mut self.max_reference_bytes, settings.max_reference_bytes.as_ref());
        set(&mut self.references_from, settings.references_from.as_ref());
        set(&mut self.cursor_mode, settings.cursor_mode.as_ref());
        set(&mut self.cursor_format, settings.cursor_format.as_ref());
        set(&mut self.advertise, settings.advertise.as_ref());
        set(&mut self.plain_arguments, settings.plain_arguments.as_ref());
        set(&mut self.cursor_ttl_ms, settings.cursor_ttl.map(|seconds| seconds * 1_000).as_ref());
        self.order_by = settings.order_by.clone().or(self.order_by.take());
        self.read_only = settings.read_only.or(self.read_only);
        self.visible_content = settings.visible_content.or(self.visible_content);
        self.client_profile = settings.client_profile.clone().or(self.client_profile.take());
        if let Some(chars) = settings.preview_chars {
            self.preview_chars = usize::try_from(chars).unwrap_or(usize::MAX);
        }
        // An empty list resets the fields that a wider rule has set.
        if let Some(fields) = &settings.fields {
            self.fields = Mask::from_paths(fields.iter().map(String::as_str))
                .ok()
                .filter(|_| !fields.is_empty());
        }
        if let Some(path) = &settings.items_path {
            self.items_path = Some(path.split('.').map(str::to_owned).collect());
        }
        if let Some(estimator) = &settings.estimator {
            set(&mut self.estimator.method, estimator.method.as_ref());
            set(&mut self.estimator.profile, estimator.profile.as_ref());
            set(&mut self.estimator.scale, estimator.scale.as_ref());
        }
    }

    /// Returns the token budget of an answer of `pages` pages. If the caller requests the budget
    /// `wanted`, returns that, whatever the number of pages. It is clamped between the minimum
    /// budget and the hard cap.
    #[must_use]
    pub fn budget_for(&self, pages: u64, wanted: Option<u64>) -> Budget {
        match wanted {
            Some(tokens) => Budget {
                estimator: self.estimator,
                threshold: tokens.clamp(MIN_BUDGET_TOKENS, self.hard_cap.max(MIN_BUDGET_TOKENS)),
            },
            None => self.budget(pages),
        }
    }

    /// Returns the token budget of an answer of `pages` pages or chunks: `pages` times the
    /// threshold. The hard cap limits it if enforced.
    #[must_use]
    pub fn budget(&self, pages: u64) -> Budget {
        let wanted = self.threshold.saturating_mul(pages.max(1));
        let threshold = if self.enforce_hard_cap { wanted.min(self.hard_cap) } else { wanted };
        Budget { estimator: self.estimator, threshold }
    }
}
