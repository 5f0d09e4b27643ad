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
