//! An item of a list, as received from the upstream and as written to the client.

use std::cell::OnceCell;

use crate::fields::minify;
use crate::json::scan::is_json;
use crate::json::text::{Form, escape, visible};

/// The number of leading items of a list from which the effect of removing white space is
/// estimated.
const SAMPLE_ITEMS: usize = 3;

/// A list item, with its minified form if white space is removed.
#[derive(Clone, Debug)]
pub struct Item<'i> {
    /// The index of the item's list among the lists of the payload that are divided into pages.
    pub list: usize,
    /// The item as the upstream sent it, raw or escaped as in a JSON string.
    pub original: &'i [u8],
    form: Form,
    /// True if the item is sent without insignificant white space.
    compact: bool,
    /// The minified item as raw JSON. Computed on first use.
    raw: OnceCell<Vec<u8>>,
    /// The minified item, escaped again if `original` is escaped as in a JSON string. Computed on
    /// first use.
    shown: OnceCell<Vec<u8>>,
}

impl<'i> Item<'i> {
    /// Creates an item that is sent unchanged. `original` is in `form`: raw, or escaped as in a
    /// JSON string.
    #[must_use]
    pub fn new(list: usize, original: &'i [u8], form: Form) -> Self {
        let (raw, shown) = (OnceCell::new(), OnceCell::new());
        Self { list, original, form, compact: false, raw, shown }
    }

    /// Returns the bytes to send to the client, raw or escaped like `original`. O(item) on first
    /// use.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match (self.read(), self.form) {
            ((raw, Form::Raw), Form::Escaped) => self.shown.get_or_init(|| {
                let mut shown = Vec::new();
                escape(&mut shown, raw);
                shown
            }),
            ((bytes, _), _) => bytes,
        }
    }

    /// Returns the bytes to parse or price, with their form: the minified item as raw JSON, or else
    /// `original`. All items of a list have the same form. O(item) on first use.
    #[must_use]
    pub fn read(&self) -> (&[u8], Form) {
        if !self.compact {
            return (self.original, self.form);
        }
        let raw = self.raw.get_or_init(|| {
            let raw = visible(self.original, self.form);
            // In invalid JSON it is not known where white space is significant.
            if is_json(&raw, Form::Raw) { minify(&raw) } else { raw.into_owned() }
        });
        (raw, Form::Raw)
    }
}

/// Removes insignificant white space from all items, if that makes the first three more than a
/// twentieth shorter, and the first object has any. O(3 items).
pub fn minify_items(items: &mut [Item<'_>]) {
    let (mut before, mut after) = (0, 0);
    for item in items.iter().take(SAMPLE_ITEMS) {
        let compact = Item { compact: true, ..Item::new(item.list, item.original, item.form) };
        let length = compact.bytes().len();
        // Records of one list are written alike: if the first object has no white space, none has.
        if before == 0 && item.original.first() == Some(&b'{') && length == item.original.len() {
            return;
        }
        before += item.original.len();
        after += length;
    }
    if after * 20 < before * 19 {
        items.iter_mut().for_each(|item| item.compact = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_white_space_is_removed_in_either_form() {
        let texts = ["{\n    \"name\": \"a  b\"\n}", "{\n    \"name\": \"\\\"\"\n}", "{\n  {"];
        let expected = [r#"{"name":"a  b"}"#, r#"{"name":"\""}"#, "{\n  {"];
        let escaped = |text: &str| {
            let mut out = Vec::new();
            escape(&mut out, text.as_bytes());
            out
        };
        for form in [Form::Raw, Form::Escaped] {
            let write = |text: &str| match form {
                Form::Raw => text.as_bytes().to_vec(),
                Form::Escaped => escaped(text),
            };
            let originals = texts.map(write);
            let mut items: Vec<Item<'_>> =
                originals.iter().map(|original| Item::new(0, original, form)).collect();
            assert!(items.iter().zip(&originals).all(|(item, came)| item.bytes() == came));
            minify_items(&mut items);
            for ((item, came), text) in items.iter().zip(&originals).zip(expected) {
                assert_eq!(
                    (item.bytes(), item.original),
                    (write(text).as_slice(), came.as_slice())
                );
                assert_eq!(item.read(), (text.as_bytes(), Form::Raw));
            }
        }
        let slightly: &[u8] = br#"{"a": 1,"b":"long enough to make the blank small"}"#;
        for texts in [&[slightly][..], &[br#"{"a":1}"#, b"{\n\n\n\n}"]] {
            let mut dense: Vec<Item<'_>> =
                texts.iter().map(|text| Item::new(0, text, Form::Raw)).collect();
            minify_items(&mut dense);
            assert!(dense.iter().all(|item| item.bytes() == item.original));
        }
    }
}
