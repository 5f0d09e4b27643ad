//! Finds the longest prefix of a text that fits a token limit and ends at a boundary.

use unicode_segmentation::UnicodeSegmentation;

use crate::json::text::{self, Form};
use crate::tokens::{COST_SCALE, Estimator};

/// The number of bytes before a cut that are searched for the end of a sentence or word.
const MAX_LOOKBACK_BYTES: usize = 400;

/// Returns the length, in bytes, of a long prefix of `bytes` that costs at most `allowance` tokens.
/// O(result).
///
/// Intended for text without usable line ends. The prefix ends after a sentence or else a word,
/// never inside a character or an escape. Near an escape, it may end inside a grapheme. It has at
/// least one character, even if that costs more, unless `bytes` is empty.
#[must_use]
pub(super) fn fit(bytes: &[u8], form: Form, estimator: &Estimator, allowance: u64) -> usize {
    let weigh = |end: usize| {
        estimator.scaled_cost(&text::visible(bytes.get(..end).unwrap_or_default(), form))
    };
    let allowed = allowance.max(1).saturating_mul(COST_SCALE);
    let guess = usize::try_from(allowance.saturating_mul(3))
        .unwrap_or(usize::MAX)
        .clamp(16, bytes.len().max(16));
    // Three bytes a token, to begin with.
    let mut end = text::boundary(bytes, guess, form);
    let mut weight = weigh(end);
    // The cost of a beginning is nearly proportional to its length. Grow while an eighth of the
    // limit is left, then shrink until it fits.
    while end < bytes.len() && weight < allowed / 8 * 7 {
        let wanted = u64::try_from(end).unwrap_or(u64::MAX).saturating_mul(allowed) / weight.max(1);
        let wanted =
            usize::try_from(wanted).unwrap_or(usize::MAX).min(end.saturating_mul(2)).max(end + 1);
        let next = text::boundary(bytes, wanted, form);
        if next <= end {
            break;
        }
        end = next;
        weight = weigh(end);
    }
    while weight > allowed && end > 1 {
        let shrunk = u64::try_from(end).unwrap_or(u64::MAX).saturating_mul(allowed) / weight;
        let shrunk = usize::try_from(shrunk).unwrap_or(0).min(end - 1);
        end = text::boundary(bytes, shrunk - shrunk / 32, form);
        weight = weigh(end);
    }
    if end >= bytes.len() {
        return bytes.len();
    }
    let good = settle(bytes, end, form);
    if good > 0 { good } else { first_character(bytes, form) }
}

/// Returns the last offset, at or shortly before `end`, at which to cut `bytes`: after a sentence,
/// else a word, else a grapheme. Returns `end` if there is none.
pub(super) fn settle(bytes: &[u8], end: usize, form: Form) -> usize {
    let from = text::boundary(bytes, end.saturating_sub(MAX_LOOKBACK_BYTES.min(end / 2)), form);
    let window = bytes.get(from..end).unwrap_or_default();
    if let Some(at) =
        after_last(window, |previous, byte| byte == b' ' && matches!(previous, b'.' | b'!' | b'?'))
    {
        return from + at;
    }
    if let Some(at) = after_last(window, |_, byte| byte == b' ' || byte == b',') {
        return from + at;
    }
    // No word ends here: the text is Chinese, base64 or minified. The end of a grapheme is known
    // only from the bytes after the cut.
    let beyond = text::boundary(bytes, end + 64, form);
    let near = text::boundary(bytes, end.saturating_sub(64).max(from), form);
    let Ok(tail) = std::str::from_utf8(bytes.get(near..beyond).unwrap_or_default()) else {
        return end;
    };
    if form == Form::Escaped && tail.contains('\\') {
        return end;
    }
    let last =
        tail.grapheme_indices(true).map(|(at, _)| near + at).take_while(|at| *at <= end).last();
    last.filter(|at| *at > from).unwrap_or(end)
}

/// Returns the offset after the last two adjacent bytes of `window` for which `is` returns true.
/// `None` if there are none.
fn after_last(window: &[u8], is: impl Fn(u8, u8) -> bool) -> Option<usize> {
    let pairs = window.iter().zip(window.iter().skip(1));
    pairs
        .enumerate()
        .filter(|(_, (previous, byte))| is(**previous, **byte))
        .map(|(at, _)| at + 2)
        .last()
}

/// Returns the length, in bytes, of the first character. A chunk contains at least that, even if it
/// exceeds its token limit.
fn first_character(bytes: &[u8], form: Form) -> usize {
    let mut end = 1;
    while end < bytes.len() && text::boundary(bytes, end, form) != end {
        end += 1;
    }
    end.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, allowance: u64) -> &str {
        text.get(..fit(text.as_bytes(), Form::Raw, &Estimator::default(), allowance)).unwrap()
    }

    #[test]
    fn beginning_ends_at_best_boundary() {
        let prose = "The first sentence is here. ".repeat(200);
        assert!(cut(&prose, 60).ends_with(". "));
        let words = "lorem ipsum dolor sit amet ".repeat(200);
        assert!(cut(&words, 60).ends_with(' '));
        let family = "👩‍👩‍👧‍👦".repeat(300);
        assert_eq!(cut(&family, 100).chars().count() % 7, 0, "whole families");
    }

    proptest! {
        #[test]
        fn beginning_fits_and_is_not_empty(
            text in "\\PC{1,40}",
            times in 1usize..200,
            allowance in 8u64..300,
        ) {
            let text = text.repeat(times);
            let head = cut(&text, allowance);
            prop_assert!(!head.is_empty());
            let cost = Estimator::default().price(head.as_bytes());
            let fits = cost <= allowance || head.chars().count() <= 1;
            prop_assert!(fits, "{cost} tokens in {head:?}");
        }

        #[test]
        fn escapes_are_not_cut(text in "[a\\\\\"\n🦀é]{1,200}", allowance in 1u64..40) {
            let mut escaped = Vec::new();
            text::escape(&mut escaped, text.as_bytes());
            let end = fit(&escaped, Form::Escaped, &Estimator::default(), allowance);
            let head = text::visible(&escaped[..end], Form::Escaped).into_owned();
            prop_assert!(text.as_bytes().starts_with(&head));
            prop_assert!(end > 0);
        }
    }
}
