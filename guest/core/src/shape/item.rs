//! An item of a list, as it came and as it is shown.

use std::cell::OnceCell;

use super::lossless::minify;
use crate::json::scan::is_json;
use crate::json::text::{Form, convert, visible};

/// Items of which the first tell whether all have white space between their values.
const SAMPLE: usize = 3;

/// An item of a list.
#[derive(Clone, Debug)]
pub struct Item<'i> {
    /// Which of the lists it is in.
    pub list: usize,
    /// As it came.
    pub original: &'i [u8],
    /// Without white space between its values, once that is asked for; none where it stays as it came.
    compact: Option<(Form, OnceCell<Vec<u8>>)>,
}

impl<'i> Item<'i> {
    /// An item of this list, as it came.
    #[must_use]
    pub fn new(list: usize, original: &'i [u8]) -> Self {
        Self { list, original, compact: None }
    }

    /// As it is shown. O(item), once.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.compact {
            Some((form, compact)) => compact.get_or_init(|| without_space(self.original, *form)),
            None => self.original,
        }
    }
}

/// From now on items, which stand in this form, are shown without the white space between their values, where there is much of it in the first of them: it goes before anything else
/// does. O(3 items).
pub fn compact(items: &mut [Item<'_>], form: Form) {
    let sample = items.iter().take(SAMPLE).map(|item| item.original);
    let (before, after) = sample.fold((0, 0), |(before, after), item| {
        (before + item.len(), after + without_space(item, form).len())
    });
    if after * 20 < before * 19 {
        for item in items {
            item.compact = Some((form, OnceCell::new()));
        }
    }
}

fn without_space(item: &[u8], form: Form) -> Vec<u8> {
    // What is broken inside stays as it is: it is not known where its white space matters.
    if !is_json(item, form) {
        return item.to_vec();
    }
    let mut out = Vec::new();
    convert(&mut out, &minify(&visible(item, form)), Form::Raw, form);
    out
}
