//! Tests of totals.

use super::*;
use crate::policy::EndpointSettings;

fn run(aggregate: &str) -> String {
    let json = br#"{"rows":[{"s":"open","p":0.1,"t":["a","b"]},{"s":"done","p":0.2,"t":["a"]},{"s":"open","p":10},{"p":null}]}"#;
    let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
    match Aggregates::parse(aggregate)
        .and_then(|aggregates| aggregates.run(&records, &records.ids, 0))
    {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(reason) => reason,
    }
}

#[test]
fn totals_cover_every_record() {
    let note = r#""notes":["1 record has no number at p and was left out"]"#;
    assert_eq!(run("count"), r#"{"records":4,"count":4}"#);
    assert_eq!(run("count, sum(p), count"), run("count, sum(p)"));
    assert_eq!(run("count by s"), r#"{"records":4,"count by s":{"open":2,"done":1,"null":1}}"#);
    assert_eq!(
        run("sum(p), min(p),max(p)"),
        format!(r#"{{"records":4,"sum(p)":10.3,"min(p)":0.1,"max(p)":10,{note}}}"#)
    );
    assert_eq!(
        run("sum(p) by s"),
        format!(r#"{{"records":4,"sum(p) by s":{{"open":10.1,"done":0.2,"null":null}},{note}}}"#)
    );
    assert_eq!(run("distinct(t)"), r#"{"records":4,"distinct(t)":{"count":2,"values":["a","b"]}}"#);
    assert_eq!(run("count(p)"), r#"{"records":4,"count(p)":3}"#);
}

#[test]
fn groups_may_come_first() {
    assert_eq!(run("count_by(s)"), r#"{"records":4,"count_by(s)":{"open":2,"done":1,"null":1}}"#);
    assert!(run("top 1 s by sum(p)").contains(r#""top 1 s by sum(p)":{"open":10.1}"#));
    assert!(run("top 1 s").contains("write count by s order by count desc limit 1"));
    assert!(run(r#"{"terms": {"field": "s"}}"#).contains(r#"{"open":2,"done":1,"null":1}"#));
}
