//! The published schema of the policy is the one that its types give.
#![cfg(feature = "schema")]

use std::path::Path;

use context_guard_core::policy::{Document, SCHEMA};

#[test]
fn the_published_schema_is_generated_from_the_types() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Document)).unwrap() + "\n";
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let published = here.join("../../docs/policy.schema.json");
    if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
        std::fs::write(here.join("policy.schema.json"), &schema).unwrap();
        std::fs::write(published, &schema).unwrap();
        return;
    }
    assert!(
        SCHEMA == schema,
        "guest/core/policy.schema.json is out of date: run `cargo xtask docs`"
    );
    assert!(
        std::fs::read_to_string(published).unwrap() == schema,
        "docs/policy.schema.json is out of date: run `cargo xtask docs`"
    );
}

#[test]
fn the_schema_takes_what_the_compiler_takes() {
    let policy = r#"{"tokenBudgetThreshold": 5000, "hardCap": 9000, "estimator": {"profile": "claude-legacy", "scale": 1.3}, "endpoints": [{"match": "list_*", "shape": false}]}"#;
    assert!(context_guard_core::policy::compile(policy).is_ok());
    for name in
        ["tokenBudgetThreshold", "hardCap", "claude-legacy", "scale", "endpoints", "match", "shape"]
    {
        assert!(SCHEMA.contains(name), "{name}");
    }
}
