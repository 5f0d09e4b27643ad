//! Documents of a folder: Markdown and text files with a vendor and related documents.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The maximum number of documents, and the maximum size of one in bytes.
const MAX_DOCUMENTS: usize = 400;
const MAX_DOCUMENT_BYTES: u64 = 60_000;

/// A document.
pub(crate) struct Document {
    pub(crate) vendor: String,
    id: String,
    title: String,
    content: String,
    relationships: Vec<String>,
}

impl Document {
    /// Returns the indexed text, in which the title counts twice.
    pub(crate) fn searched(&self) -> String {
        format!("{}\n{}\n{}", self.title, self.title, self.content)
    }

    /// Returns the document as JSON.
    pub(crate) fn json(&self, score: Option<f64>, related: bool) -> Value {
        let mut json = json!({
            "id": self.id,
            "title": self.title,
            "type": "documentation",
            "vendor": self.vendor,
            "words": self.content.split_whitespace().count(),
        });
        if let Some(members) = json.as_object_mut() {
            members.extend(score.map(|score| ("score".to_owned(), score.into())));
            members.insert("content".to_owned(), self.content.as_str().into());
            if related {
                members.insert("relationships".to_owned(), self.relationships.clone().into());
            }
        }
        json
    }
}

/// Returns the folder of the crates that cargo downloaded.
pub(crate) fn of_cargo() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    registries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.is_dir())
}

/// Reads the documents of a folder and its subfolders.
pub(crate) fn read(folder: &Path) -> Vec<Document> {
    let mut files = Vec::new();
    collect(folder, 0, &mut files);
    files.sort();
    files.iter().filter_map(|path| document(folder, path)).take(MAX_DOCUMENTS).collect()
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let is_text = path.extension().is_some_and(|ending| ending == "md" || ending == "txt");
        let is_change_log =
            path.file_stem().is_some_and(|name| !name.eq_ignore_ascii_case("readme"));
        if path.is_dir() && depth < 3 {
            collect(&path, depth + 1, files);
        // A crate's documentation is of interest here, its changelog is not.
        } else if is_text && !(is_change_log && path.with_file_name("Cargo.toml").is_file()) {
            files.push(path);
        }
    }
}

fn document(root: &Path, path: &Path) -> Option<Document> {
    let size = path.metadata().ok()?.len();
    let content =
        std::fs::read_to_string(path).ok().filter(|_| (200..MAX_DOCUMENT_BYTES).contains(&size))?;
    let folder = path.parent()?;
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let name = folder.strip_prefix(root).ok()?.display().to_string();
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    // A folder may have several documents, of which one describes it.
    let name = match (name.is_empty(), stem.eq_ignore_ascii_case("readme")) {
        (true, _) => stem,
        (false, true) => name,
        (false, false) => format!("{name}/{stem}"),
    };
    let heading = content
        .lines()
        .find_map(|line| line.strip_prefix("# "))
        .map(|heading| heading.trim().to_owned());
    Some(Document {
        vendor: owner(&manifest)
            .unwrap_or_else(|| name.split(['/', '-']).next().unwrap_or_default().to_owned()),
        title: heading
            .filter(|heading| !heading.is_empty() && !heading.contains(['<', '[']))
            .unwrap_or_else(|| name.clone()),
        relationships: relations(&manifest),
        id: name,
        content,
    })
}

/// Returns the owner of the repository in a manifest.
fn owner(manifest: &str) -> Option<String> {
    let line = manifest.lines().find(|line| line.starts_with("repository"))?;
    let url = line.split('"').nth(1)?;
    url.split("://").nth(1)?.split('/').nth(1).map(str::to_owned)
}

/// Returns the dependencies in a manifest.
fn relations(manifest: &str) -> Vec<String> {
    let names =
        manifest.lines().filter_map(|line| line.strip_prefix("[dependencies.")?.strip_suffix(']'));
    names.map(str::to_owned).collect()
}
