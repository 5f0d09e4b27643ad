//! Conversions between the types of the core and those of the WIT contract.

use context_guard_core::encoding::Stored;
use context_guard_core::policy::{CompiledPolicy, Issue, OnFault};
use context_guard_core::query::response_mode::ResponseMode;
use context_guard_core::{Context, JqBuild, Loss, Origin, Record};

use crate::bindings::context_guard::guard::types;

pub(crate) fn context(cx: &types::CallContext) -> Context<'_> {
    Context {
        principal: &cx.principal,
        upstream: &cx.upstream,
        protocol_version: &cx.protocol_version,
        client_name: cx.client_name.as_deref().unwrap_or_default(),
        only_count: cx.only_count,
        lists_tools: cx.lists_tools.as_deref(),
        full_list: cx.full_list,
        store_unavailable: cx.store_unavailable,
        catalogue_version: cx.catalog_version.as_deref().unwrap_or_default(),
        jq_build: JqBuild::Absent,
    }
}

pub(crate) fn fault(fault: context_guard_core::Fault) -> types::Fault {
    use context_guard_core::Fault;
    match fault {
        Fault::Malformed(at) => types::Fault::Malformed(at),
        Fault::TooDeep => types::Fault::TooDeep,
        Fault::TooLarge(limit) => types::Fault::TooLarge(limit),
        // The contract has no fault of its own for strings, which are a part of the syntax.
        Fault::InvalidString => types::Fault::Malformed(0),
        // This build has jq.
        fault @ Fault::NeedsJq => types::Fault::Other(fault.to_string()),
        Fault::Other(reason) => types::Fault::Other(reason),
    }
}

pub(crate) fn issues(issues: Vec<Issue>) -> Vec<types::PolicyIssue> {
    let severity =
        |warning| if warning { types::Severity::Warning } else { types::Severity::Error };
    issues
        .into_iter()
        .map(|issue| types::PolicyIssue {
            severity: severity(issue.warning),
            path: issue.path,
            reason: issue.reason,
        })
        .collect()
}

pub(crate) fn compiled(compiled: CompiledPolicy) -> types::CompiledPolicy {
    types::CompiledPolicy {
        resolved: compiled.policy.to_bytes(),
        on_fault: match compiled.policy.on_fault() {
            OnFault::Pass => types::OnFault::Pass,
            OnFault::Limit => types::OnFault::Limit,
            OnFault::Block => types::OnFault::Block,
        },
        hard_byte_limit: compiled.policy.hard_byte_limit(),
        cursor_ttl_ms: compiled.policy.settings_for("", "").cursor_ttl_ms,
        warnings: issues(compiled.warnings),
    }
}

pub(crate) fn decision(record: Record) -> types::Decision {
    let (pagination_used, chunking_used) = (record.pagination_used(), record.chunking_used());
    let summarization_used = record.summarization_used();
    let Origin { snapshots, continues, cursor_error } = *record.origin;
    types::Decision {
        pagination_used,
        chunking_used,
        summarization_used,
        endpoint: record.endpoint,
        mode: record.mode,
        loss: match record.loss {
            Loss::None => types::LossClass::None,
            Loss::Lossless => types::LossClass::Lossless,
            Loss::Partial => types::LossClass::Partial,
            Loss::Condensed => types::LossClass::Condensed,
            Loss::Described => types::LossClass::Described,
        },
        estimated_tokens: record.estimated_tokens,
        response_bytes: record.response_bytes,
        original_tokens: record.original_tokens,
        original_tokens_sampled: record.original_tokens_sampled,
        original_bytes: record.original_bytes,
        budget: record.budget,
        item_count: record.item_count,
        read_only: record.read_only,
        response_mode: record.response_mode.map(|mode| match mode {
            ResponseMode::IdsOnly => types::ResponseMode::IdsOnly,
            ResponseMode::Metadata => types::ResponseMode::Metadata,
            ResponseMode::Preview => types::ResponseMode::Preview,
            ResponseMode::Full => types::ResponseMode::Full,
        }),
        revision: None,
        cache: None,
        unshaped: false,
        snapshots,
        continues,
        cursor_error: cursor_error.map(str::to_owned),
        options: Vec::new(),
    }
}
