//! Whether the two halves of an answer say the same.

use crate::json::scan::Kind;
use crate::json::survey::{List, Survey};
use crate::json::text::Form;
use crate::json::{Span, equal};

/// How the structured half relates to the text half.
pub(super) enum Relation {
    /// The text says the same as the whole value, or as a list of it.
    Whole,
    /// The text is a string of the value.
    Text(Span),
    /// They differ.
    None,
}

impl Relation {
    /// Compares structured content with the texts beside it, each escaped as it stands in the message. `around` is the most bytes that
    /// may stand round a text of the structured content for it to count as its wrapping. Costs one reading of both.
    pub(super) fn of(message: &[u8], survey: &Survey, texts: &[&[u8]], around: usize) -> Self {
        let bytes = |span: &Span| message.get(span.clone()).unwrap_or_default();
        if let [text] = texts {
            if let Some(string) = &survey.text
                && survey.kind == Kind::Object
                && survey.root.len() - string.span.len() <= around
                && equal::text(text, Form::Escaped, bytes(&string.span), Form::Escaped)
            {
                return Relation::Text(string.span.clone());
            }
            let says = |span: &Span| equal::json(text, Form::Escaped, bytes(span), Form::Raw);
            let same = says(&survey.root) || survey.longest().is_some_and(|list| says(&list.span));
            return if same { Relation::Whole } else { Relation::None };
        }
        let says = |list: &List| {
            list.items.len() == texts.len()
                && list.items.iter().zip(texts).all(|(item, text)| same(bytes(item), text))
        };
        if survey.longest().is_some_and(says) { Relation::Whole } else { Relation::None }
    }
}

/// Whether the text of a block is the item of a list: the string itself, or its JSON.
fn same(item: &[u8], text: &[u8]) -> bool {
    match item.strip_prefix(b"\"").and_then(|item| item.strip_suffix(b"\"")) {
        Some(string) => equal::text(string, Form::Escaped, text, Form::Escaped),
        None => equal::json(item, Form::Raw, text, Form::Escaped),
    }
}
