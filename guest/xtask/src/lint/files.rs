//! Every file says what it is for, and is short enough to be about one thing.

use super::Finding;
use super::source::{Language, Source};

/// Maximum number of lines of a file, without its tests.
const MAX_LINES: usize = 450;

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    if source.language != Language::Rust {
        return;
    }
    let mut report = |message| {
        findings.push(Finding { rule: "file", place: source.name.clone(), message });
    };
    if !source.lines.iter().any(|line| line.text.starts_with("//!")) {
        report("no module documentation".to_owned());
    }
    let code = source.lines.iter().take_while(|line| !line.is_test).count();
    if code > MAX_LINES && !source.is_test() {
        report(format!("{code} lines of code, more than {MAX_LINES}: split the file"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::rules;

    #[test]
    fn undocumented_and_long_files_are_found() {
        assert_eq!(rules("a.rs", "fn a() {}\n", check).len(), 1);
        let long = format!("//! Doc.\n{}", "fn a() {}\n".repeat(MAX_LINES));
        assert_eq!(rules("a.rs", &long, check).len(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        let long = format!("//! Doc.\n#[cfg(test)]\n{}", "fn a() {}\n".repeat(MAX_LINES));
        assert_eq!(rules("a.rs", &long, check), [""; 0]);
    }
}
