//! The modules of a crate and their imports, read from the source text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A source file of a crate, with its module path.
pub(crate) struct Module {
    /// The module's path inside the crate; empty for the root.
    pub(crate) path: Vec<String>,
    /// The path of the file, for error messages.
    pub(crate) file: String,
    /// The source code of the file.
    pub(crate) text: String,
}

/// An import of another module of the same crate.
pub(crate) struct Import {
    /// The path of the importing module.
    pub(crate) from: Vec<String>,
    /// The imported module. If an item is imported, the module that contains it.
    pub(crate) to: Vec<String>,
    /// The path of the importing file, for error messages.
    pub(crate) file: String,
}

/// Reads all modules in a `src` folder. The root files of binaries count as the crate root.
pub(crate) fn modules(source: &Path) -> Vec<Module> {
    let (mut folders, mut modules) = (vec![source.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let relative = entry.strip_prefix(source).unwrap().with_extension("");
                let mut path: Vec<String> =
                    relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                if matches!(path.last().map(String::as_str), Some("lib" | "main" | "mod")) {
                    path.pop();
                }
                let text = std::fs::read_to_string(&entry).unwrap();
                modules.push(Module { path, file: entry.display().to_string(), text });
            }
        }
    }
    modules
}

/// Returns true if a module is a file that only tests compile.
fn is_test_file(module: &Module, modules: &[Module]) -> bool {
    let Some((name, parent)) = module.path.split_last() else { return false };
    let declaration = format!("#[cfg(test)]\nmod {name};");
    modules.iter().any(|module| module.path == parent && module.text.contains(&declaration))
}

/// Returns the imports of a module, without those of its tests.
pub(crate) fn imports(module: &Module, modules: &[Module]) -> Vec<Import> {
    if is_test_file(module, modules) {
        return Vec::new();
    }
    let code = module.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: String =
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut found = Vec::new();
    for (start, word) in [("crate::", false), ("super::", true)]
        .iter()
        .flat_map(|(word, up)| code.match_indices(word).map(move |(at, _)| (at, *up)))
    {
        let before = code.get(..start).unwrap_or_default();
        // Neither `context_guard_crate::` nor the second `super` of a chain.
        if before.ends_with(|end: char| end.is_alphanumeric() || end == '_' || end == ':') {
            continue;
        }
        let mut rest = code.get(start..).unwrap_or_default();
        let mut base = if word { module.path.clone() } else { Vec::new() };
        rest = rest.strip_prefix("crate::").unwrap_or(rest);
        while let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            rest = after;
        }
        for path in expand(rest) {
            let to = resolve(&base, &path, modules);
            found.push(Import { from: module.path.clone(), to, file: module.file.clone() });
        }
    }
    found
}

/// Returns all paths in a use tree: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let name: String =
        tree.chars().take_while(|next| next.is_alphanumeric() || *next == '_').collect();
    let rest = tree.get(name.len()..).unwrap_or_default();
    if name.is_empty() {
        let Some(list) = tree.strip_prefix('{') else { return vec![Vec::new()] };
        let (mut depth, mut start, mut paths) = (0, 0, Vec::new());
        for (at, next) in list.char_indices() {
            match next {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                '}' | ',' if depth == 0 => {
                    paths.extend(expand(list.get(start..at).unwrap_or_default().trim()));
                    start = at + 1;
                    if next == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
        return paths;
    }
    let tails = rest.strip_prefix("::").map_or(vec![Vec::new()], expand);
    tails.into_iter().map(|tail| [vec![name.clone()], tail].concat()).collect()
}

/// Returns the longest prefix of an import path that names a module of the crate.
fn resolve(base: &[String], path: &[String], modules: &[Module]) -> Vec<String> {
    let whole = [base, path].concat();
    let is_module = |path: &[String]| modules.iter().any(|module| module.path.starts_with(path));
    (0..=whole.len())
        .rev()
        .filter_map(|length| whole.get(..length))
        .find(|path| is_module(path))
        .unwrap_or_default()
        .to_vec()
}

/// Returns the import cycles between sibling modules, as the parent's path and the names of the
/// modules. Imports between a module and its own submodules do not count.
pub(crate) fn cycles(imports: &[Import]) -> Vec<(String, Vec<String>)> {
    let mut edges: BTreeMap<Vec<String>, BTreeSet<(String, String)>> = BTreeMap::new();
    for import in imports {
        let common = import.from.iter().zip(&import.to).take_while(|(one, two)| one == two).count();
        if let (Some(from), Some(to)) = (import.from.get(common), import.to.get(common)) {
            let parent = import.from.get(..common).unwrap_or_default().to_vec();
            edges.entry(parent).or_default().insert((from.clone(), to.clone()));
        }
    }
    let mut found = Vec::new();
    for (parent, mut edges) in edges {
        // A module that nothing imports, or that imports nothing, is in no cycle.
        loop {
            let users: BTreeSet<_> = edges.iter().map(|(from, _)| from.clone()).collect();
            let used: BTreeSet<_> = edges.iter().map(|(_, to)| to.clone()).collect();
            let before = edges.len();
            edges.retain(|(from, to)| used.contains(from) && users.contains(to));
            if edges.len() == before {
                break;
            }
        }
        let names: BTreeSet<String> = edges.into_iter().map(|(from, _)| from).collect();
        if !names.is_empty() {
            found.push((parent.join("::"), names.into_iter().collect()));
        }
    }
    found
}
