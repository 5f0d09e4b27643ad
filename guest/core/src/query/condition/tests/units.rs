//! Tests of numbers beside amounts.

use super::*;

#[test]
fn numbers_are_compared_with_amounts_of_one_unit() {
    let json = r#"[{"d":"146 km","p":"70%","m":"512 MB"},{"d":"389 km","p":"8%","m":"1 GB"},
        {"d":"-","p":"40%","m":"256 MB"},{"d":"300 km","p":"0%","m":"128 MB"}]"#;
    for (text, expected) in [
        ("d > 200", 2),
        ("200 < d", 2),
        ("d BETWEEN 100 AND 300", 2),
        ("d = 300.0", 1),
        ("d != 300", 3),
        ("d IN (146, 389)", 2),
        ("d > '200'", 2),
        ("p > 20", 2),
        ("p > 0", 3),
        ("p = 0", 1),
    ] {
        let (count, note) = select(json, text).unwrap();
        assert_eq!(count, expected, "{text}: {note}");
        assert!(note.contains("was compared with the amounts in"), "{text}: {note}");
    }
    // A share or a percentage; a number of bytes or of megabytes.
    for (text, correction) in [
        ("p > 0.5", "write '50%' or '0.5%'"),
        ("p >= 1", "write '100%' or '1%'"),
        ("m > 500", "write the amount with its unit, such as '500 MB'"),
        ("m BETWEEN 1 AND 600", "such as '1 MB'"),
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains(correction), "{text}: {refused}");
    }
    assert_eq!(select(json, "p > '50%'").unwrap().0, 1);
    assert_eq!(select(json, "m > '500 MB'").unwrap().0, 2);
}

#[test]
fn numbers_without_a_clear_unit_are_refused() {
    for json in [r#"[{"x":"12k"},{"x":"3k"}]"#, r#"[{"x":"500m"},{"x":"1500m"}]"#] {
        assert!(select(json, "x > 1").is_err(), "{json}");
    }
    assert_eq!(select(r#"[{"x":"500 m"},{"x":"1500 m"}]"#, "x > 1000").unwrap().0, 1);
    let json = r#"[{"x":"80.50 CHF"},{"x":"120.00 EUR"},{"x":"150.00 CHF"}]"#;
    for text in ["x > 100", "x BETWEEN 100 AND 200"] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("such as '100 CHF'"), "{text}: {refused}");
    }
    assert_eq!(select(json, "x > '100 CHF'").unwrap().0, 1);
    let attribute =
        r##"[{"x":{"#text":80,"@currency":"CHF"}},{"x":{"#text":120,"@currency":"EUR"}}]"##;
    assert!(select(attribute, "x > 100").unwrap_err().contains("write x.#text"));
    assert_eq!(select(attribute, "x.#text > 100").unwrap().0, 1);
    // Numbers beside amounts may have another unit.
    let (count, note) = select(r#"[{"x":"5 km"},{"x":7},{"x":2}]"#, "x > 3").unwrap();
    assert!(count == 1 && note.contains("1 record has no number at x"), "{note}");
}

#[test]
fn fields_that_never_compare_are_refused() {
    let json = r#"[{"d":"146 km","n":5},{"d":"389 km","n":600}]"#;
    assert!(select(json, "d > n").unwrap_err().contains("no record has values"));
}

#[test]
fn words_of_magnitude_are_no_units() {
    let json = r#"[{"p":"1.2 million","m":"512 MB"},{"p":"8.9 million","m":"256 MB"}]"#;
    for text in ["p > 1000000", "p < 1000000", "m > 1000000000", "m < 600000"] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("has no unit"), "{text}: {refused}");
    }
    assert_eq!(select(json, "p > '2 million'").unwrap().0, 1);
    assert_eq!(select(json, "m > 300").unwrap().0, 1);
    assert_eq!(select(json, "p = 1200000").unwrap().0, 0);
}

#[test]
fn dots_before_three_digits_are_stated() {
    let json = r#"[{"d":"1.200 km"},{"d":"350 km"}]"#;
    for (text, expected) in [("d > 300", 1), ("d > '300 km'", 1), ("d = 350", 1)] {
        let (count, note) = select(json, text).unwrap();
        assert_eq!(count, expected, "{text}");
        assert!(note.contains("'1.200 km' at d was read with a dot before decimals"), "{note}");
    }
    let clear = r#"[{"d":"0.125 km"},{"d":"350 km"},{"d":"1,200 km"}]"#;
    assert!(!select(clear, "d > 300").unwrap().1.contains("dot before"));
}

#[test]
fn defaults_have_the_unit_of_amounts() {
    let json = r#"[{"d":"146 km"},{"d":"1200 km"},{"d":null}]"#;
    let first = |text: &str| {
        let settings = EndpointSettings::default();
        let records = RecordSet::locate(json.as_bytes(), &settings).unwrap();
        let selection = Condition::parse(text).unwrap().select(&records).unwrap();
        String::from_utf8(records.raw(selection.ids[0])).unwrap()
    };
    assert!(first("order by coalesce(d, 0) desc limit 1").contains("1200"));
    assert!(first("order by coalesce(d, 0) limit 1").contains("null"));
    assert!(first("order by coalesce(d, 500) desc limit 2 offset 1").contains("null"));
    assert_eq!(select(json, "COALESCE(d, 0) = 146").unwrap().0, 1);
    assert_eq!(select(json, "COALESCE(d, 0) = 0").unwrap().0, 1);
    assert_eq!(select(json, "COALESCE(d, 0) > 100").unwrap().0, 2);
}
