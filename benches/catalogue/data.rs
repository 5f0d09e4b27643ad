//! Catalogues of tools and labelled queries.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// A tool as a catalogue file lists it.
#[derive(Clone, Deserialize)]
pub(crate) struct ToolRecord {
    pub(crate) id: String,
    pub(crate) server: String,
    pub(crate) name: String,
    #[serde(default)]
    description: String,
    #[serde(rename = "inputSchema", default)]
    input_schema: Value,
    #[serde(default)]
    annotations: Option<Value>,
    /// The definition as a server would list it.
    #[serde(skip)]
    pub(crate) definition: String,
}

/// A query with its needs. Any tool of a need's list meets the need.
#[derive(Clone, Deserialize)]
pub(crate) struct Query {
    pub(crate) query: String,
    pub(crate) needs: Vec<Vec<String>>,
}

/// Queries with the catalogue in which they are searched.
pub(crate) struct QuerySet {
    pub(crate) name: String,
    /// The catalogue's name, which several sets can share.
    pub(crate) catalogue: String,
    pub(crate) queries: Vec<Query>,
}

/// All sets of a folder.
pub(crate) struct Data {
    pub(crate) catalogues: HashMap<String, Vec<ToolRecord>>,
    pub(crate) sets: Vec<QuerySet>,
}

/// The sets of the development data: name, catalogue files, query file, and the number of needs.
/// A file `SETS.tsv` in the folder, with the same four columns, replaces them.
const SETS: &str = "\
live-tasks\tlive527\tlive-tasks.dev\tall
live-steps\tlive527\tlive-steps.dev\tall
live-routes\tlive527\tlive-routes.dev\tall
wild-steps\tlive527+wild\tlive-steps.dev\tall
wild-routes\tlive527+wild\tlive-routes.dev\tall
bfcl\tbfcl\tbfcl.dev\tall
seal-1\tseal4076\tseal.dev\tone
seal-n\tseal4076\tseal.dev\tmany
tb-1\ttoolbench\ttoolbench.dev\tone
tb-n\ttoolbench\ttoolbench.dev\tmany
";

fn lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("no file {}", path.display()))?;
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).with_context(|| path.display().to_string()))
        .collect()
}

/// Reads the catalogues and queries of a folder.
pub(crate) fn read(folder: &Path) -> Result<Data> {
    let table = std::fs::read_to_string(folder.join("SETS.tsv")).unwrap_or(SETS.to_owned());
    let mut data = Data { catalogues: HashMap::new(), sets: Vec::new() };
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, catalogue, queries, needs] = columns.as_slice() else {
            anyhow::bail!("SETS.tsv: {line:?} has not four columns");
        };
        if !data.catalogues.contains_key(*catalogue) {
            let mut tools: Vec<ToolRecord> = Vec::new();
            for file in catalogue.split('+') {
                tools.extend(lines::<ToolRecord>(&folder.join(format!("{file}.tools.jsonl")))?);
            }
            for tool in &mut tools {
                tool.definition = tool.definition();
            }
            data.catalogues.insert((*catalogue).to_owned(), tools);
        }
        let mut queries: Vec<Query> = lines(&folder.join(format!("{queries}.jsonl")))?;
        queries.retain(|query| match *needs {
            "one" => query.needs.len() == 1,
            "many" => query.needs.len() > 1,
            _ => true,
        });
        let (name, catalogue) = ((*name).to_owned(), (*catalogue).to_owned());
        data.sets.push(QuerySet { name, catalogue, queries });
    }
    Ok(data)
}

impl ToolRecord {
    /// Returns the tool as a gateway lists it: the server is a prefix of the name.
    pub(crate) fn as_listed(&self) -> Value {
        let name = match self.server.as_str() {
            "" => self.name.clone(),
            server => format!("{server}__{}", self.name),
        };
        json!({"name": name, "description": self.description, "inputSchema": self.input_schema})
    }

    /// Returns the text that FastMCP searches: name, description, names and descriptions of
    /// parameters.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} {} {}", self.server, self.name, self.description);
        let properties = self.input_schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let description = property.get("description").and_then(Value::as_str);
            text.push_str(&format!(" {name} {}", description.unwrap_or_default()));
        }
        // The crate splits at word boundaries, which do not separate `snake_case`.
        text.replace('_', " ")
    }

    fn definition(&self) -> String {
        let mut definition = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        });
        if let (Some(annotations), Some(definition)) =
            (&self.annotations, definition.as_object_mut())
        {
            definition.insert("annotations".to_owned(), annotations.clone());
        }
        definition.to_string()
    }
}
