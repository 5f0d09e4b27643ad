//! The relation of structured content to text content.

use crate::json::locate_lists::{DocumentInfo, List};
use crate::json::scan::Kind;
use crate::json::text::Form;
use crate::json::{Span, equal};

/// The relation between the text content and the structured content of an answer.
pub(super) enum Relation {
    /// The text has the same data as the whole structured content.
    Whole,
    /// The text has the same data as the longest list of the structured content.
    List,
    /// The text equals a string inside the structured content. Holds the span of that string.
    Text(Span),
    /// The text and the structured content have different data.
    None,
}

impl Relation {
    /// Compares structured content, whose lists are in `survey`, with the escaped texts of the
    /// message. Returns [`Self::Text`] only if at most `max_wrapping` bytes surround the string in
    /// the structured content. Reads both contents once.
    pub(super) fn compare(
        message: &[u8],
        survey: &DocumentInfo,
        texts: &[&[u8]],
        max_wrapping: usize,
    ) -> Self {
        let bytes = |span: &Span| message.get(span.clone()).unwrap_or_default();
        if let [text] = texts {
            if let Some(string) = &survey.text
                && survey.kind == Kind::Object
                && survey.root.len() - string.span.len() <= max_wrapping
                && equal::text(text, Form::Escaped, bytes(&string.span), Form::Escaped)
            {
                return Relation::Text(string.span.clone());
            }
            let says = |span: &Span| equal::json(text, Form::Escaped, bytes(span), Form::Raw);
            let is_list = || survey.longest().is_some_and(|list| says(&list.span));
            return match says(&survey.root) {
                true => Relation::Whole,
                false if is_list() => Relation::List,
                false => Relation::None,
            };
        }
        let says = |list: &List| {
            list.items.len() == texts.len()
                && list.items.iter().zip(texts).all(|(item, text)| equals_item(bytes(item), text))
        };
        if survey.longest().is_some_and(says) { Relation::List } else { Relation::None }
    }
}

/// Returns true if a text block equals a list item of the structured content. A string item is
/// compared by its content, any other by its JSON.
fn equals_item(item: &[u8], text: &[u8]) -> bool {
    match item.strip_prefix(b"\"").and_then(|item| item.strip_suffix(b"\"")) {
        Some(string) => equal::text(string, Form::Escaped, text, Form::Escaped),
        None => equal::json(item, Form::Raw, text, Form::Escaped),
    }
}
