//! Writes the answers that serve a part of a stored snapshot.

use super::read::PartRead;
use super::reply::Envelope;
use super::write_answer;
use crate::json::scan::is_json;
use crate::json::text::Form;
use crate::record::{Origin, Record};
use crate::shape::notice::READ_TOOL;
use crate::snapshot::stored::snapshots;

/// The guard's answer to a request that reads a part of a snapshot.
pub struct ServedPart {
    /// The JSON-RPC response for the client.
    pub message: Vec<u8>,
    /// The telemetry record of the answer.
    pub record: Record,
}

/// Returns the answer that sends `read`, a part of a snapshot: to a tool call or, if `resource` is
/// given, to a read of that resource URI.
#[must_use]
pub fn serve_part(envelope: &Envelope<'_>, read: &PartRead, resource: Option<&str>) -> ServedPart {
    let facts =
        read.excerpt.coverage.json(read.rendered.cursor.as_deref(), read.excerpt.more, READ_TOOL);
    let meta = write_answer::result_metadata(
        facts,
        read.rendered.tokens,
        read.threshold,
        read.original,
        read.original_bytes,
    );
    let message = match resource {
        None => envelope.tool(&read.rendered, &meta),
        Some(uri) => envelope.resource(uri, &read.rendered, &meta),
    };
    debug_assert!(is_json(&message, Form::Raw), "an answer is JSON");
    let record = Record {
        endpoint: read.endpoint.clone(),
        mode: read.excerpt.coverage.kind().to_owned(),
        loss: read.excerpt.coverage.loss(),
        estimated_tokens: read.rendered.tokens,
        response_bytes: message.len() as u64,
        original_tokens: read.original.tokens,
        original_tokens_sampled: read.original.sampled,
        original_bytes: read.original_bytes,
        budget: read.threshold,
        item_count: read.excerpt.coverage.items(),
        response_mode: None,
        read_only: false,
        origin: Box::new(Origin {
            snapshots: snapshots(&read.entries),
            continues: Some(read.snapshot.clone()),
            cursor_error: None,
        }),
    };
    ServedPart { message, record }
}
