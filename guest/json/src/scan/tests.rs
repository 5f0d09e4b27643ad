//! Compares the scanner with serde_json on fixed and on random documents.

use proptest::prelude::*;

use super::*;
use crate::locate_lists::DocumentInfo;

fn serialized(value: &serde_json::Value, pretty: bool) -> String {
    if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap()
}

fn escape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    text::escape(&mut out, text.as_bytes());
    out
}

#[test]
fn syntax_errors_match_serde_json() {
    let cases = [
        "",
        " ",
        "{}",
        "[]",
        "[1,2]",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{a:1}",
        "[1 2]",
        "01",
        "-",
        "1.",
        "1.5e",
        "1.5e-3",
        "nul",
        "true",
        "\"x",
        "\"\\\"\"",
        "[[[[]]]]",
        "{\"a\":{\"b\":[{}]}}",
        "[}",
        "1 1",
        "\"a\"b",
    ];
    for case in cases {
        let expected = serde_json::from_str::<serde_json::Value>(case).is_ok();
        assert_eq!(is_json(case.as_bytes(), Form::Raw), expected, "{case}");
        assert_eq!(is_json(&escape(case), Form::Escaped), expected, "escaped {case}");
    }
}

#[test]
fn depth_is_bounded() {
    let deep = "[".repeat(100_000);
    assert_eq!(Scanner::new(deep.as_bytes(), Form::Raw).skip_value(), Err(ScanError::TooDeep));
}

#[test]
fn mixed_nesting_is_tracked() {
    for levels in [1, 63, 64, 65, 127, 128, 129, 500] {
        let object = |level: usize| level.is_multiple_of(3);
        let open: String =
            (0..levels).map(|level| if object(level) { "{\"k\":" } else { "[1," }).collect();
        let close: String =
            (0..levels).rev().map(|level| if object(level) { '}' } else { ']' }).collect();
        let document = format!("{open}null{close}");
        assert!(is_json(document.as_bytes(), Form::Raw), "{levels} levels");
        let wrong = document.replacen("null]", "null}", 1).replacen("null}}", "null]}", 1);
        assert!(
            wrong == document || !is_json(wrong.as_bytes(), Form::Raw),
            "{levels} levels, one wrong"
        );
    }
}

#[test]
fn quotes_as_unicode_escapes_are_rejected() {
    assert!(!is_json(br"\u0022x\u0022", Form::Escaped));
    assert!(is_json(br#"\"caf\u00e9\""#, Form::Escaped));
    assert!(is_json(br#"\"\\u0022 \\\" \\\\\""#, Form::Escaped));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i32>().prop_map(|number| (f64::from(number) / 4.0).into()),
        "\\PC{0,8}|[\"\\\\\n\t/\u{1}\\[}]{0,9}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec(("\\PC{0,5}", inner), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_document_is_passed_in_both_forms(value in json(), pretty: bool) {
        let text = serialized(&value, pretty);
        prop_assert!(is_json(text.as_bytes(), Form::Raw));
        prop_assert!(is_json(&escape(&text), Form::Escaped));
    }

    #[test]
    fn elements_are_those_of_serde_json(values in prop::collection::vec(json(), 0..8)) {
        let text = escape(&serde_json::to_string(&values).unwrap());
        let mut spans = Vec::new();
        let mut scanner = Scanner::new(&text, Form::Escaped);
        scanner.array(|scanner| { spans.push(scanner.skip_value()?); Ok(()) }).unwrap();
        let read: Vec<serde_json::Value> = spans
            .iter()
            .map(|span| text::visible(&text[span.clone()], Form::Escaped))
            .map(|element| serde_json::from_slice(&element).unwrap())
            .collect();
        prop_assert_eq!(read, values);
    }

    #[test]
    fn skipping_unchecked_ends_at_the_same_byte(
        value in json(), pretty: bool, more in "[\\[\\]{}\",\\\\ ]{0,6}"
    ) {
        let text = serialized(&value, pretty);
        // A quote as a unicode escape does not end the string.
        let text = format!("[{text},\"\\u0022 [\"]");
        let whole = text.clone() + &more;
        let escaped = escape(&whole);
        for (bytes, form) in [(whole.into_bytes(), Form::Raw), (escaped, Form::Escaped)] {
            let read = Scanner::new(&bytes, form).skip_value();
            prop_assert!(read.is_ok());
            prop_assert_eq!(Scanner::new(&bytes, form).skip_unchecked(), read);
        }
    }

    #[test]
    fn embedded_document_ends_with_its_string(
        value in json(),
        cut in 0usize..200,
        whole: bool,
        more in "[\\[\\]{}\",\\\\n ]{0,4}",
        after in "[\\[\\]{}\",\\\\n ]{0,70}"
    ) {
        // A whole or truncated document, followed by bytes that could be mistaken for its
        // continuation.
        let mut text = serde_json::to_string(&value).unwrap();
        if !whole {
            text = text.chars().take(cut).collect();
        }
        let text = text + &more;
        let message = [b"\"".as_slice(), &escape(&text), b"\"", after.as_bytes()].concat();
        let mut scanner = Scanner::new(&message, Form::Raw);
        let end = scanner.clone().string().unwrap();
        let alone = DocumentInfo::parse(&message[end.clone()], Form::Escaped);
        let found = scanner.embedded_document(DocumentInfo::read);
        prop_assert_eq!(found.is_some(), alone.is_some());
        if let (Some((span, found)), Some(alone)) = (found, alone) {
            prop_assert_eq!(&span, &end);
            prop_assert_eq!(scanner.position(), end.end + 1);
            let found = found.relative_to(span.start);
            prop_assert_eq!(format!("{found:?}"), format!("{alone:?}"));
        }
    }

    #[test]
    fn any_bytes_end_without_a_panic(bytes: Vec<u8>) {
        for form in [Form::Raw, Form::Escaped] {
            let _ = is_json(&bytes, form);
            let _ = Scanner::new(&bytes, form).skip_unchecked();
            let _ = text::visible(&bytes, form);
        }
    }
}
