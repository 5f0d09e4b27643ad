//! Configuration files: every fault has a reason, and a document means the same in each format.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use std::path::Path;

use context_guard::config::{Config, Error, References, parse};
use context_guard::document;
use libfuzzer_sys::fuzz_target;

fn read(name: &str, text: &str) -> Result<Config, Error> {
    parse(Path::new(name), text, [], References::Keep)
}

fn check(name: &str, text: &str) {
    let config = match read(name, text) {
        Ok(config) => config,
        Err(Error::Config { issues, .. }) => {
            assert!(!issues.0.is_empty(), "an error without a reason");
            for issue in &issues.0 {
                let lines = text.split(['\n', '\r']).count();
                assert!(issue.line.is_none_or(|line| (1..=lines).contains(&line)), "{issue:?}");
                assert!(!issue.reason.is_empty());
            }
            return;
        }
        Err(_) => return,
    };
    assert!(config.path.starts_with('/'), "{:?}", config.path);
    let mut names: Vec<&str> = config.upstreams.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), config.upstreams.len(), "two upstreams of one name");
    for upstream in &config.upstreams {
        let is_process = !upstream.command.is_empty();
        let kinds = [is_process, upstream.url.is_some(), upstream.rest.is_some()];
        assert_eq!(kinds.iter().filter(|is| **is).count(), 1, "{upstream:?}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for name in ["gateway.yaml", "gateway.json", "gateway.toml"] {
        check(name, text);
        if let Ok(value) = document::parse(Path::new(name), text)
            && !value.is_null()
        {
            let json = value.to_string();
            let (one, other) = (read(name, text), read("gateway.json", &json));
            assert_eq!(one.is_ok(), other.is_ok(), "{name} and JSON differ: {one:?} {other:?}");
        }
    }
});
