//! No name of a type occurs twice in a crate.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{Language, Source};
use crate::build::root;

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut seen = BTreeMap::<(String, String), String>::new();
    for source in sources.iter().filter(|source| source.language == Language::Rust) {
        let crate_name = crate_of(&source.name);
        for (name, place) in definitions(source) {
            let first = seen.entry((crate_name.clone(), name.clone())).or_insert(place.clone());
            if *first != place {
                findings.push(Finding {
                    rule: "type-name",
                    place,
                    message: format!("the type name {name} occurs in {first} as well"),
                });
            }
        }
    }
}

/// Returns a name for the crate that a file belongs to: the folder of its package and, for a binary
/// or test, its target.
fn crate_of(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    let is_package = |depth: &usize| {
        let folder = parts.iter().take(*depth).fold(root(), |folder, part| folder.join(part));
        folder.join("Cargo.toml").is_file()
    };
    let depth = (0..parts.len()).rev().find(is_package).unwrap_or_default();
    let (package, inside) = parts.split_at(depth);
    // A target with several files is a folder.
    let target = match inside {
        ["src", "bin", target, ..] => format!("bin {target}"),
        ["src", "main.rs"] => "main".to_owned(),
        [kind @ ("tests" | "benches" | "examples" | "targets"), target, ..] => {
            format!("{kind} {target}")
        }
        _ => String::new(),
    };
    format!("{} {target}", package.join("/"))
}

/// Returns the names of the types that a file defines outside its tests, each with path and line.
fn definitions(source: &Source) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut previous = "";
    for line in source.lines.iter().take_while(|line| !line.is_test) {
        // Two types under contrary conditions are one type.
        let is_conditional = previous.trim_start().starts_with("#[cfg(");
        previous = &line.code;
        let mut words = line.code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'));
        let is_item =
            |word: &&str| !matches!(*word, "pub" | "crate" | "super" | "in" | "" | "unsafe");
        let keyword = words.find(is_item).unwrap_or_default();
        // An indented alias is an associated type.
        let is_type = matches!(keyword, "struct" | "enum" | "trait" | "union")
            || (keyword == "type" && !line.code.starts_with(' '));
        let name = words.next().unwrap_or_default();
        if is_type && !is_conditional && name.starts_with(char::is_uppercase) {
            found.push((name.to_owned(), source.place(line)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> =
            files.iter().filter_map(|(name, text)| Source::parse(name, text)).collect();
        let mut findings = Vec::new();
        check(&sources, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_type_of_the_same_name_is_found() {
        let faults = found(&[
            ("host/src/a.rs", "pub(crate) struct Entry;\n"),
            ("host/src/b/c.rs", "    enum Entry {}\n"),
            ("host/src/d.rs", "pub type Entry<T> = Vec<T>;\n"),
        ]);
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn other_crates_tests_and_associated_types_pass() {
        let faults = found(&[
            ("host/src/a.rs", "struct Entry;\n// struct Entry\n#[cfg(test)]\nstruct Entry;\n"),
            ("guest/core/src/a.rs", "struct Entry;\nimpl A for B {\n    type Entry = u8;\n}\n"),
            ("benches/load/main.rs", "struct Entry;\n"),
            ("benches/scale/main.rs", "struct Entry;\n"),
            ("host/src/c.rs", "#[cfg(not(feature = \"x\"))]\nenum Entry {}\n"),
        ]);
        assert_eq!(faults, [""; 0]);
    }
}
