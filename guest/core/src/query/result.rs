//! The results of queries.

use super::records::ListEnvelope;

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    /// The result: unescaped JSON, or a text.
    pub bytes: Vec<u8>,
    /// True if the result is a text, not JSON.
    pub is_text: bool,
    /// A description of the result in words: "fields id, status of 500 records".
    pub description: String,
    /// The fields that the query selects, if their projection stopped before the last record.
    /// `None` if all records were read, or the query selects no fields.
    pub partial: Option<PartialProjection>,
    /// The document around the list in `bytes`. `None` if `bytes` are a whole document, or a list
    /// that is not the document's list of records.
    pub envelope: Option<ListEnvelope>,
}

/// A projection of a list that has fields of its first records alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialProjection {
    /// The selected fields, as the caller wrote them.
    pub fields: String,
    /// The keys from the document to the list, if the paths in `fields` start at the document.
    /// Empty if the paths start at each record.
    pub within: Vec<String>,
}

impl QueryResult {
    /// Creates a complete result: neither a partial projection nor a list inside a document.
    #[must_use]
    pub fn new(bytes: Vec<u8>, is_text: bool, description: String) -> Self {
        Self { bytes, is_text, description, partial: None, envelope: None }
    }
}
